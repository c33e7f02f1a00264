package main

import (
	"context"
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// answers runs a command with `lost` unanswered attempts and then an attempt that ends with the error `last`.
func answers(s *server, command redis.Cmder, lost int, last error) {
	process := s.ProcessHook(func(context.Context, redis.Cmder) error {
		for range lost {
			s.ReportResult(errors.New("connection reset by peer"))
		}
		s.ReportResult(last)
		return last
	})
	_ = process(context.Background(), command)
}

func set(done bool) *redis.BoolCmd {
	command := redis.NewBoolCmd(context.Background())
	command.SetVal(done)
	return command
}

func script(answer int64) *redis.Cmd {
	command := redis.NewCmd(context.Background())
	command.SetVal(answer)
	return command
}

func TestARefusalAfterALostAttemptIsNone(t *testing.T) {
	s := &server{}
	answers(s, set(false), 0, nil)
	if s.left || !s.taken {
		t.Fatal("refused at the first attempt, and it is said to be there")
	}
	answers(s, set(false), 1, nil)
	if !s.left {
		t.Fatal("the first attempt may have set it")
	}
	answers(s, script(0), 0, nil)
	if s.left {
		t.Fatal("its deletion was answered")
	}
	answers(s, script(-1), 1, nil)
	if s.yes || !s.unclear {
		t.Fatal("the first attempt may have deleted it")
	}
}

func TestWhatWasNotSentIsNotThere(t *testing.T) {
	s := &server{}
	answers(s, set(false), 0, context.DeadlineExceeded)
	if s.left {
		t.Fatal("it waited for a connection until its time was over")
	}
	answers(s, set(false), 0, errors.New("i/o timeout"))
	if !s.left {
		t.Fatal("it was sent and not answered")
	}
	answers(s, script(0), 0, errors.New("i/o timeout"))
	if !s.left {
		t.Fatal("nor was its deletion")
	}
}

func TestAKeyIsInTheQueueUntilItsDeletionIsAnswered(t *testing.T) {
	const txn, deletion = "/etcdserverpb.KV/Txn", "/etcdserverpb.KV/DeleteRange"
	lost, refusal := status.Error(codes.DeadlineExceeded, "context deadline exceeded"), status.Error(codes.NotFound, "no lease")
	unsent := status.Error(codes.Unavailable, "connection error: desc = \"transport: Error while dialing: refused\"")
	for _, story := range []struct {
		txn, deletion error
		left          bool
	}{{nil, nil, false}, {nil, lost, true}, {nil, unsent, true}, {lost, unsent, true}, {refusal, refusal, false}, {unsent, unsent, false}} {
		c := &calls{}
		c.note(txn, story.txn)
		c.note(deletion, story.deletion)
		if _, left := c.queue(); left != story.left {
			t.Errorf("%+v: left is %v", story, left)
		}
	}
}
