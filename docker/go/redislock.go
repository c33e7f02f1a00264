package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// retryPause is the backoff of the library's own example of retries.
const retryPause = 100 * time.Millisecond

// redislockLocks has one client, as in the library's README.
type redislockLocks struct {
	locker *redislock.Client
	server *server
	ttl    time.Duration
	held   map[string]*redislock.Lock
}

func openRedislock(asked request) (locks, error) {
	server := &server{}
	client := redis.NewClient(&redis.Options{Addr: string(asked.Addresses[0]), Limiter: server})
	client.AddHook(server)
	return &redislockLocks{redislock.New(client), server, seconds(asked.TTL), map[string]*redislock.Lock{}}, nil
}

func (r *redislockLocks) acquire(key string, timeout time.Duration) (grant, error) {
	within, options := answerTimeout, &redislock.Options{}
	if timeout > 0 {
		within, options = timeout, &redislock.Options{RetryStrategy: redislock.LinearBackoff(retryPause)}
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	r.server.begin()
	lock, err := r.locker.Obtain(ctx, key, r.ttl, options)
	switch {
	case err == nil:
		r.held[key] = lock
		return grant{}, nil
	case r.server.lost > 0:
		return grant{}, doubtful(err.Error())
	case errors.Is(err, redislock.ErrNotObtained), errors.Is(err, context.DeadlineExceeded) && r.server.spoke:
		return grant{}, busy
	}
	return grant{}, refused(err.Error())
}

func (r *redislockLocks) release(key string) error {
	lock, found := r.held[key]
	if !found {
		return notHolder
	}
	err := r.within(lock.Release)
	switch {
	case err == nil:
		delete(r.held, key)
		return nil
	case r.server.lost > 0: // the key that it does not find may have been deleted by its own first attempt
		return doubtful(err.Error())
	case errors.Is(err, redislock.ErrLockNotHeld):
		return notHolder
	}
	return refused(err.Error())
}

func (r *redislockLocks) extend(key string) (bool, error) {
	lock, found := r.held[key]
	if !found {
		return false, notHolder
	}
	err := r.within(func(ctx context.Context) error { return lock.Refresh(ctx, r.ttl, nil) })
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, redislock.ErrNotObtained):
		return false, nil
	case r.server.lost > 0:
		return false, doubtful(err.Error())
	}
	return false, refused(err.Error())
}

// stillValid asks the server for the remaining time, as the README does; without an answer it does not rely on the lock.
func (r *redislockLocks) stillValid(key string) (bool, error) {
	lock, found := r.held[key]
	if !found {
		return false, nil
	}
	var left time.Duration
	err := r.within(func(ctx context.Context) (err error) {
		left, err = lock.TTL(ctx)
		return err
	})
	if err != nil {
		fmt.Fprintln(os.Stderr, "TTL:", err)
	}
	return err == nil && left > 0, nil
}

func (r *redislockLocks) within(call func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	r.server.begin()
	return call(ctx)
}

func (r *redislockLocks) close() {}
