package main

import (
	"context"
	"errors"
	"math"
	"net/url"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"
	"google.golang.org/grpc"
)

const (
	// The documentation of clientv3 has this in its first example, and no other time-out.
	dialTimeout = 5 * time.Second
	// For what the caller gives no time: one try, and an unlock.
	answerTimeout = 2 * time.Second
	// A Lock whose context is over still deletes its key, with a context that never ends.
	grace = 3 * time.Second
)

// etcdLocks has one client and one session for all keys, as a process of a user's has. A session that has ended is
// followed by another at the next acquire.
type etcdLocks struct {
	endpoints []string
	ttl       int
	calls     calls
	client    *clientv3.Client
	session   *concurrency.Session
	held      map[string]holding
}

type holding struct {
	mutex   *concurrency.Mutex
	session *concurrency.Session
}

func openEtcd(asked request) (locks, error) {
	e := &etcdLocks{ttl: max(1, int(math.Ceil(asked.TTL))), held: map[string]holding{}}
	for _, where := range asked.Addresses {
		e.endpoints = append(e.endpoints, string(where))
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	if err := e.renew(ctx); err != nil {
		return nil, refused("no session: " + err.Error())
	}
	return e, nil
}

func (e *etcdLocks) acquire(key string, timeout time.Duration) (grant, error) {
	within := timeout
	if within <= 0 {
		within = answerTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	if err := e.renew(ctx); err != nil {
		return grant{}, refused("no session: " + err.Error())
	}
	// The prefix ends with a slash: a key with a slash in it would be under another one's.
	mutex := concurrency.NewMutex(e.session, "/locks/"+url.PathEscape(key))
	lock := mutex.Lock
	if timeout <= 0 {
		lock = mutex.TryLock
	}
	e.calls.begin()
	if err := e.bounded(within+grace, func() error { return lock(ctx) }); err != nil {
		return grant{}, e.notLocked(err)
	}
	e.held[key] = holding{mutex, e.session}
	return grant{Fence: &mutex.Header().Revision}, nil
}

// notLocked says what a Lock that returned an error has left behind.
func (e *etcdLocks) notLocked(err error) error {
	if errors.Is(err, rpctypes.ErrLeaseNotFound) || errors.Is(err, concurrency.ErrSessionExpired) {
		e.session.Orphan()
		return refused(err.Error())
	}
	queued, left := e.calls.queue()
	switch {
	case left:
		return doubtful(err.Error())
	case queued && (errors.Is(err, concurrency.ErrLocked) || errors.Is(err, context.DeadlineExceeded)):
		return busy
	}
	return refused(err.Error())
}

// bounded closes the client of a call that does not come back, which ends all that it waits for.
func (e *etcdLocks) bounded(within time.Duration, call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-time.After(within):
		e.client.Close()
		return <-done
	}
}

func (e *etcdLocks) release(key string) error {
	holding, found := e.held[key]
	if !found {
		return notHolder
	}
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	e.calls.begin()
	err := holding.mutex.Unlock(ctx)
	switch {
	case err == nil:
		delete(e.held, key)
		return nil
	case e.calls.unanswered():
		return doubtful(err.Error())
	}
	return refused(err.Error())
}

func (e *etcdLocks) stillValid(key string) (bool, error) {
	holding, found := e.held[key]
	return found && !ended(holding.session), nil
}

func (e *etcdLocks) close() {
	if e.session != nil {
		_ = e.bounded(answerTimeout, e.session.Close)
	}
}

// renew makes a session unless there is one, and a client unless its own is open.
func (e *etcdLocks) renew(ctx context.Context) error {
	if e.session != nil && !ended(e.session) {
		return nil
	}
	if e.client == nil || e.client.Ctx().Err() != nil {
		client, err := clientv3.New(clientv3.Config{
			Endpoints:   e.endpoints,
			DialTimeout: dialTimeout,
			DialOptions: []grpc.DialOption{grpc.WithChainUnaryInterceptor(e.calls.intercept)},
		})
		if err != nil {
			return err
		}
		e.client = client
	}
	// The session lives as long as its context: only its beginning has a deadline.
	lifetime, cancel := context.WithCancel(e.client.Ctx())
	stop := context.AfterFunc(ctx, cancel)
	session, err := concurrency.NewSession(e.client, concurrency.WithTTL(e.ttl), concurrency.WithContext(lifetime))
	if err == nil && !stop() {
		session.Orphan()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return err
	}
	e.session = session
	return nil
}

func ended(session *concurrency.Session) bool {
	select {
	case <-session.Done():
		return true
	default:
		return false
	}
}
