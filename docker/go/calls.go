package main

import (
	"context"
	"strings"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// notSent are texts by which gRPC and etcd's client say that a request was not sent.
var notSent = []string{
	"Error while dialing",
	"there is no address available",
	"there is no connection available",
	"while waiting for new LB policy update",
	"while waiting for connections to become ready",
}

// calls records the etcd requests of one operation, because the mutex does not report what happened to its key.
type calls struct {
	mu     sync.Mutex
	queued bool // the operation put a key into the queue
	left   bool // the key may still be in the queue
	lost   bool // the last request got no answer
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

// unclear reports whether the request was sent and its outcome is unknown.
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
