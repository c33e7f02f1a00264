package main

import (
	"context"
	"net"
	"sync"

	"github.com/redis/go-redis/v9"
)

// server follows what one operation of redsync asked of one server: redsync tells only what the majority said. It is a
// hook of go-redis, which sees a command's last outcome, and a limiter that limits nothing, which sees each attempt:
// go-redis asks up to four times, and "not set" may be about a key that its first attempt has set.
type server struct {
	mu      sync.Mutex
	lost    int  // attempts that were not answered
	left    bool // the key may be set
	taken   bool // it was somebody else's
	yes     bool // a script did what it was asked for
	unclear bool // nobody knows whether it did
}

func (s *server) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lost, s.left, s.taken, s.yes, s.unclear = 0, false, false, false, false
}

func (s *server) agreed() bool { return s.yes }

// Allow is the limiter's.
func (s *server) Allow() error { return nil }

// ReportResult is the limiter's.
func (s *server) ReportResult(err error) {
	if sent(err) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost++
	}
}

// DialHook is the hook's.
func (s *server) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return next(ctx, network, address)
	}
}

// ProcessPipelineHook is the hook's.
func (s *server) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook is the hook's.
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
