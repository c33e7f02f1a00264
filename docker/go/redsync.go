package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
)

// redsyncLocks has a pool for each server, as in redsync's documentation.
type redsyncLocks struct {
	redsync *redsync.Redsync
	servers []*server
	options []redsync.Option
	held    map[string]*redsync.Mutex
}

type redsyncOptions struct {
	SetNXOnExtend bool `json:"set_nx_on_extend"`
	// Off by default in go-redis, so redsync's time-out for each server, 5 % of the expiry, has no effect.
	ContextTimeouts bool `json:"context_timeouts"`
}

func openRedsync(asked request) (locks, error) {
	var options redsyncOptions
	if len(asked.Options) > 0 {
		if err := json.Unmarshal(asked.Options, &options); err != nil {
			return nil, fmt.Errorf("options: %w", err)
		}
	}
	r := &redsyncLocks{held: map[string]*redsync.Mutex{}}
	var pools []redsyncredis.Pool
	for _, where := range asked.Addresses {
		server := &server{}
		client := redis.NewClient(&redis.Options{
			Addr: string(where), ContextTimeoutEnabled: options.ContextTimeouts, Limiter: server,
		})
		client.AddHook(server)
		r.servers, pools = append(r.servers, server), append(pools, goredis.NewPool(client))
	}
	r.redsync = redsync.New(pools...)
	r.options = []redsync.Option{redsync.WithExpiry(seconds(asked.TTL)), redsync.WithTries(math.MaxInt32)}
	if options.SetNXOnExtend {
		r.options = append(r.options, redsync.WithSetNXOnExtend())
	}
	return r, nil
}

func (r *redsyncLocks) quorum() int { return len(r.servers)/2 + 1 }

func (r *redsyncLocks) acquire(key string, timeout time.Duration) (grant, error) {
	mutex := r.redsync.NewMutex(key, r.options...)
	r.begin()
	var err error
	if timeout > 0 {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		err = mutex.LockContext(ctx)
	} else {
		err = mutex.TryLock()
	}
	if err != nil {
		return grant{}, r.notLocked(err)
	}
	r.held[key] = mutex
	validFor := time.Until(mutex.Until()).Seconds()
	return grant{ValidFor: &validFor}, nil
}

// notLocked classifies a failed acquire: it is doubtful if a majority of the servers may still have the key.
func (r *redsyncLocks) notLocked(err error) error {
	if left := r.count(func(s *server) bool { return s.left }); left >= r.quorum() {
		return doubtful(fmt.Sprintf("the key may be set on %d of %d servers: %v", left, len(r.servers), err))
	}
	if slices.ContainsFunc(r.servers, func(s *server) bool { return s.taken }) {
		return busy
	}
	return refused(err.Error())
}

func (r *redsyncLocks) release(key string) error {
	done, err := r.scripted(key, (*redsync.Mutex).UnlockContext)
	if err == nil && !done {
		return notHolder
	}
	if err == nil {
		delete(r.held, key)
	}
	return err
}

func (r *redsyncLocks) extend(key string) (bool, error) {
	return r.scripted(key, (*redsync.Mutex).ExtendContext)
}

// scripted calls a method that needs a majority; it returns false only if there certainly was none.
func (r *redsyncLocks) scripted(key string, call func(*redsync.Mutex, context.Context) (bool, error)) (bool, error) {
	mutex, found := r.held[key]
	if !found {
		return false, notHolder
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	r.begin()
	done, err := call(mutex, ctx)
	if done {
		return true, nil
	}
	if errors.Is(err, redsync.ErrExtendFailed) { // a majority agreed, but too late
		return false, nil
	}
	if lost := r.count(func(s *server) bool { return s.unclear }); lost > 0 && lost+r.count((*server).agreed) >= r.quorum() {
		return false, doubtful(fmt.Sprintf("%d of %d servers did not answer: %v", lost, len(r.servers), err))
	}
	return false, nil
}

// stillValid compares with Until, as the documentation recommends; Valid is deprecated.
func (r *redsyncLocks) stillValid(key string) (bool, error) {
	mutex, found := r.held[key]
	return found && time.Now().Before(mutex.Until()), nil
}

func (r *redsyncLocks) close() {}

func (r *redsyncLocks) begin() {
	for _, server := range r.servers {
		server.begin()
	}
}

func (r *redsyncLocks) count(has func(*server) bool) int {
	n := 0
	for _, server := range r.servers {
		if has(server) {
			n++
		}
	}
	return n
}

// sent reports whether a request may have been executed although it was not answered.
func sent(err error) bool {
	var said redis.Error
	var network *net.OpError
	switch {
	case err == nil, errors.As(err, &said), errors.Is(err, redis.ErrPoolTimeout):
		return false
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled): // while it waited for a connection
		return false
	case errors.As(err, &network) && network.Op == "dial":
		return false
	}
	return true
}
