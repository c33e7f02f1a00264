package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lease is the LeaseLock that an elector uses. It records the outcome of the elector's writes, because the elector does
// not report it.
type lease struct {
	resourcelock.Interface
	mu       sync.Mutex
	taken    bool      // another client was seen in the record
	unclear  bool      // a write that makes this client the leader has no answer
	won      bool      // a write has made this client the leader
	fence    int64     // leader transitions of that write
	sent     time.Time // of the last write
	released error     // outcome of the last write that gives the lease up; nil if it was done
	last     error
}

var errNoRelease = errors.New("the elector did not give the lease up")

// begin forgets the outcomes of earlier tries.
func (l *lease) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken, l.last = false, nil
}

func (l *lease) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if err == nil {
		l.taken = l.taken || record.HolderIdentity != "" && record.HolderIdentity != l.Identity()
	} else {
		l.last = err
	}
	return record, raw, err
}

func (l *lease) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	err := l.Interface.Create(ctx, record)
	l.note(record, began, err)
	return err
}

func (l *lease) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	began := time.Now()
	err := l.Interface.Update(ctx, record)
	l.note(record, began, err)
	return err
}

func (l *lease) note(record resourcelock.LeaderElectionRecord, began time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.last = err
	}
	switch {
	case record.HolderIdentity == "":
		l.released = err
	case err == nil:
		l.unclear, l.won, l.fence, l.sent = false, true, int64(record.LeaderTransitions), began
	case sent(err):
		l.unclear = true
	}
}

// grant returns the fence of the leadership, and for how long nobody else leads: the lease from its last renewal on.
func (l *lease) grant(duration time.Duration) grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	fence, validFor := l.fence, max(0, (duration-time.Since(l.sent)).Seconds())
	return grant{Fence: &fence, ValidFor: &validFor}
}

// gaveUp returns the outcome of giving the lease up.
func (l *lease) gaveUp() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.released
}

// notLed classifies the end of an elector that did not lead in time. The lease may name this client all the same.
func (l *lease) notLed() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.unclear, l.won && l.released != nil:
		return doubtful(fmt.Sprintf("the lease may name this client: %v", l.last))
	case l.taken:
		return busy
	}
	return refused(fmt.Sprint(l.last))
}

// sent reports whether a write may have been executed although it was not confirmed.
func sent(err error) bool {
	var status apierrors.APIStatus
	var network *net.OpError
	switch {
	case errors.As(err, &status):
		return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsInternalError(err)
	case errors.As(err, &network) && network.Op == "dial":
		return false
	}
	return true
}
