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
	// This value is in the first example of clientv3's documentation, which sets no other time-out.
	dialTimeout = 5 * time.Second
	// For operations without a time of the caller's: a single try, and an unlock.
	answerTimeout = 2 * time.Second
	// After its context has ended, Lock still deletes its key, with a context that never ends.
	grace = 3 * time.Second
)

// etcdLocks has one client and one session for all keys, as a user's process has. After a session has ended, the next
// acquire opens another one.
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
	// Without escaping, a key that contains a slash could lie under another key's prefix.
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

// notLocked classifies the error of a Lock by what it may have left in the queue.
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

// bounded runs a call. If it does not return in time, bounded closes the client, which ends every wait of the call.
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

// renew opens a session if there is none, and first a client if there is no open one.
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
	// The session lives as long as its context, so only opening it has a deadline.
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
