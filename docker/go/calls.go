package main

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// notSent is what gRPC and etcd's client say of a request that has not left.
var notSent = []string{
	"Error while dialing",
	"there is no address available",
	"there is no connection available",
	"while waiting for new LB policy update",
	"while waiting for connections to become ready",
}

// calls follows what one operation asked of etcd: a mutex does not say what became of its key.
type calls struct {
	mu     sync.Mutex
	queued bool // a key was put into the queue
	left   bool // it may be there now
	lost   bool // the last request was not answered
}

func (c *calls) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.queued, c.left, c.lost = false, false, false
}

func (c *calls) queue() (queued, left bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.queued, c.left
}

func (c *calls) unanswered() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lost
}

func (c *calls) intercept(
	ctx context.Context, method string, asked, answered any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption,
) error {
	err := invoke(ctx, method, asked, answered, conn, opts...)
	c.note(method, err)
	return err
}

func (c *calls) note(method string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lost = unclear(err)
	switch {
	case strings.HasSuffix(method, "/Txn"):
		c.queued = c.queued || err == nil
		c.left = c.left || err == nil || c.lost
	case strings.HasSuffix(method, "/DeleteRange"):
		c.left = c.left && err != nil
	}
}

// unclear: a request was sent, and nobody knows whether it was executed.
func unclear(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Unknown, codes.Internal:
	default:
		return false
	}
	for _, text := range notSent {
		if strings.Contains(err.Error(), text) {
			return false
		}
	}
	return true
}
