package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"time"

	"github.com/hashicorp/consul/api"
)

const (
	// Consul's servers end a session after twice its TTL, and accept no TTL below ten seconds.
	consulTTLs   = 2
	leastTTL     = 10
	patience     = 4 * time.Second // beyond the waiting time, because the client's requests have no time-out
	waitOverhead = 1.5             // servers answer a blocking query up to a sixteenth later than it asks for
)

// consulLocks has one client, and a lock object with a session of its own for each hold, as api.LockKey makes them.
type consulLocks struct {
	client  *api.Client
	ttl     string
	options consulOptions
	held    map[string]consulHold
}

type consulHold struct {
	lock *api.Lock
	lost <-chan struct{}
}

type consulOptions struct {
	LockDelay      float64 `json:"lock_delay"`
	MonitorRetries int     `json:"monitor_retries"`
	// 0: as by default, blocking queries last five minutes, and requests have no time-out.
	MonitorWait float64 `json:"monitor_wait"`
}

func openConsul(asked request) (locks, error) {
	c := &consulLocks{held: map[string]consulHold{}}
	if len(asked.Options) > 0 {
		if err := json.Unmarshal(asked.Options, &c.options); err != nil {
			return nil, fmt.Errorf("options: %w", err)
		}
	}
	c.ttl = fmt.Sprintf("%ds", max(leastTTL, int(math.Ceil(asked.TTL/consulTTLs))))
	config := api.DefaultConfig()
	config.Address = string(asked.Addresses[0])
	if c.options.MonitorWait > 0 {
		config.WaitTime = seconds(c.options.MonitorWait)
		client, err := api.NewHttpClient(config.Transport, config.TLSConfig)
		if err != nil {
			return nil, err
		}
		client.Timeout = seconds(c.options.MonitorWait * waitOverhead)
		config.HttpClient = client
	}
	client, err := api.NewClient(config)
	if err != nil {
		return nil, err
	}
	c.client = client
	return c, nil
}

func (c *consulLocks) acquire(key string, timeout time.Duration) (grant, error) {
	lock, err := c.client.LockOpts(&api.LockOptions{
		Key:            key,
		SessionTTL:     c.ttl,
		LockDelay:      seconds(c.options.LockDelay),
		MonitorRetries: c.options.MonitorRetries,
		LockTryOnce:    true,
		LockWaitTime:   max(timeout, time.Millisecond),
	})
	if err != nil {
		return grant{}, err
	}
	// LockWaitTime does not end the pause of five seconds during a lock-delay; the channel does.
	stop := make(chan struct{})
	timer := time.AfterFunc(max(timeout, time.Millisecond), func() { close(stop) })
	defer timer.Stop()
	type result struct {
		lost <-chan struct{}
		err  error
	}
	done := make(chan result, 1)
	go func() {
		lost, err := lock.Lock(stop)
		done <- result{lost, err}
	}()
	select {
	case got := <-done:
		switch {
		case got.err != nil:
			return grant{}, unanswered(got.err)
		case got.lost == nil:
			return grant{}, busy
		}
		c.held[key] = consulHold{lock, got.lost}
		return grant{}, nil
	case <-time.After(timeout + patience):
		go func() {
			if got := <-done; got.lost != nil {
				_ = lock.Unlock()
			}
		}()
		return grant{}, doubtful("the library has not returned")
	}
}

// unanswered classifies an error of the library: only a connection that was refused proves that nothing happened.
func unanswered(err error) error {
	var network *net.OpError
	if errors.As(err, &network) && network.Op == "dial" {
		return refused(err.Error())
	}
	return doubtful(err.Error())
}

// release calls Unlock, which does not say whether the session still had the key.
func (c *consulLocks) release(key string) error {
	hold, found := c.held[key]
	if !found {
		return notHolder
	}
	delete(c.held, key)
	done := make(chan error, 1)
	go func() { done <- hold.lock.Unlock() }()
	select {
	case err := <-done:
		if err != nil {
			return unanswered(err)
		}
		return nil
	case <-time.After(patience):
		return doubtful("the library has not returned")
	}
}

// stillValid reports whether the channel that Lock returned is open, which is how the library tells of a loss.
func (c *consulLocks) stillValid(key string) (bool, error) {
	hold, found := c.held[key]
	if !found {
		return false, nil
	}
	select {
	case <-hold.lost:
		return false, nil
	default:
		return true, nil
	}
}

func (c *consulLocks) close() {}
