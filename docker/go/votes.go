package main

import (
	"context"
	"errors"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// server records the requests of one redsync operation to one server, because redsync reports only the majority's
// result. It is a hook of go-redis, which sees a command's last outcome, and a limiter that limits nothing, which sees
// each attempt: go-redis sends up to four times, and "not set" may refer to a key that its own first attempt has set.
type server struct {
	mu      sync.Mutex
	lost    int  // attempts without an answer
	left    bool // our key may be set
	taken   bool // another client has the key
	yes     bool // the script succeeded
	unclear bool // the outcome of the script is unknown
	spoke   bool // a command was answered
}

func (s *server) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.left, s.taken, s.yes, s.unclear, s.spoke = 0, false, false, false, false, false
}

func (s *server) agreed() bool { return s.yes }

// Allow implements the limiter.
func (s *server) Allow() error { return nil }

// ReportResult implements the limiter.
func (s *server) ReportResult(err error) {
	if sent(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost++
	}
}

// DialHook implements the hook.
func (s *server) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

// ProcessPipelineHook implements the hook.
func (s *server) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements the hook.
func (s *server) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, command redis.Cmder) error {
		s.mu.Lock()
		before := s.lost
		s.mu.Unlock()
		err := next(ctx, command)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.note(command, err, s.lost > before)
		return err
	}
}

func (s *server) note(command redis.Cmder, err error, lost bool) {
	var answer redis.Error // also redis.Nil
	s.spoke = s.spoke || err == nil || errors.As(err, &answer)
	switch command := command.(type) {
	case *redis.BoolCmd: // SET NX
		s.left = s.left || lost || err == nil && command.Val()
		s.taken = s.taken || err == nil && !command.Val()
	case *redis.Cmd: // a script
		s.yes = err == nil && command.Val() == int64(1)
		s.unclear = lost && !s.yes
		s.left = s.left && err != nil
	}
}
