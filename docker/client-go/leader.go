package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"time"

	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const (
	namespace = "default"
	// Shortest wait for a leadership: a candidate needs two requests.
	oneTry = time.Second
)

// leaders runs an elector with an identity of its own for each leadership, as a process that is started again does.
type leaders struct {
	config   rest.Config
	options  leaderOptions
	duration time.Duration
	led      map[string]*leadership
	waiting  map[string]*candidate
}

// candidate is an elector that has not led yet. It is kept between two acquires, since what it has seen of the Lease counts.
type candidate struct {
	lease   *lease
	elector *leaderelection.LeaderElector
	started chan context.Context
}

type leaderOptions struct {
	WholeSeconds    bool `json:"whole_seconds"`
	ReleaseOnCancel bool `json:"release_on_cancel"`
}

// leadership is one run of an elector.
type leadership struct {
	lease   *lease
	leading context.Context // the one of OnStartedLeading
	cancel  context.CancelFunc
	ended   chan struct{}
}

func openLeader(asked request) (locks, error) {
	options := leaderOptions{WholeSeconds: true, ReleaseOnCancel: true}
	if len(asked.Options) > 0 {
		if err := json.Unmarshal(asked.Options, &options); err != nil {
			return nil, fmt.Errorf("options: %w", err)
		}
	}
	duration := seconds(asked.TTL)
	if options.WholeSeconds {
		duration = seconds(math.Ceil(asked.TTL))
	}
	return &leaders{
		config: rest.Config{
			Host:            "https://" + string(asked.Addresses[0]),
			BearerToken:     asked.Account,
			TLSClientConfig: rest.TLSClientConfig{Insecure: true}, // the server signs its certificate itself
		},
		options:  options,
		duration: duration,
		led:      map[string]*leadership{},
		waiting:  map[string]*candidate{},
	}, nil
}

func (l *leaders) acquire(key string, timeout time.Duration) (grant, error) {
	if led, found := l.led[key]; found {
		led.stop() // its leadership was lost, or it would have been released
		delete(l.led, key)
	}
	one, err := l.candidate(key)
	if err != nil {
		return grant{}, err
	}
	begun := one.run()
	select {
	case begun.leading = <-one.started:
	case <-time.After(max(timeout, oneTry)):
		begun.stop()
		return grant{}, l.notLed(key, one)
	case <-begun.ended:
		return grant{}, l.notLed(key, one)
	}
	l.led[key] = begun
	return one.lease.grant(l.duration.Truncate(time.Second)), nil // the Lease has whole seconds
}

// notLed keeps the candidate for the next acquire, unless the Lease has named it or may name it.
func (l *leaders) notLed(key string, one *candidate) error {
	err := one.lease.notLed()
	if _, unclear := err.(doubtful); !unclear && !one.lease.won {
		l.waiting[key] = one
	}
	return err
}

func (l *leaders) candidate(key string) (*candidate, error) {
	if kept, found := l.waiting[key]; found {
		delete(l.waiting, key)
		kept.lease.begin()
		return kept, nil
	}
	return l.newCandidate(key)
}

// newCandidate makes an elector as client-go's example does, with the proportions of its default times: 15, 10 and 2 s.
func (l *leaders) newCandidate(key string) (*candidate, error) {
	lease, err := l.lease(key)
	if err != nil {
		return nil, err
	}
	one := &candidate{lease: lease, started: make(chan context.Context, 1)}
	one.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:            lease,
		LeaseDuration:   l.duration,
		RenewDeadline:   l.renewDeadline(),
		RetryPeriod:     l.duration * 2 / 15,
		ReleaseOnCancel: l.options.ReleaseOnCancel,
		Name:            lease.Describe(),
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(leading context.Context) { one.started <- leading },
			OnStoppedLeading: func() {},
		},
	})
	return one, err
}

func (c *candidate) run() *leadership {
	ctx, cancel := context.WithCancel(context.Background())
	begun := &leadership{lease: c.lease, cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(begun.ended)
		c.elector.Run(ctx)
	}()
	return begun
}

func (l *leaders) renewDeadline() time.Duration { return l.duration * 10 / 15 }

func (l *leaders) lease(key string) (*lease, error) {
	host, err := os.Hostname()
	if err != nil {
		return nil, err
	}
	identity := resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())}
	lock, err := resourcelock.NewFromKubeconfig(
		resourcelock.LeasesResourceLock, namespace, key, identity, &l.config, l.renewDeadline(),
	)
	return &lease{Interface: lock, released: errNoRelease}, err
}

func (l *leaders) release(key string) error {
	led, found := l.led[key]
	if !found {
		return notHolder
	}
	delete(l.led, key)
	lost := led.leading.Err() != nil
	led.stop()
	if !l.options.ReleaseOnCancel && !lost {
		return nil // it renews no more; others wait until the lease is over
	}
	err := led.lease.gaveUp()
	switch {
	case lost:
		return notHolder
	case err == nil:
		return nil
	case errors.Is(err, errNoRelease):
		return notHolder
	case sent(err):
		return doubtful(err.Error())
	}
	return refused(err.Error())
}

// stillValid asks for the context that OnStartedLeading got, as the work of a leader does.
func (l *leaders) stillValid(key string) (bool, error) {
	led, found := l.led[key]
	return found && led.leading.Err() == nil, nil
}

func (l *leaders) close() {
	for _, led := range l.led {
		led.stop()
	}
}

// stop cancels the elector and waits until it has returned.
func (l *leadership) stop() {
	l.cancel()
	<-l.ended
}
