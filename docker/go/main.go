// Command locks is a lock program: locks of Go libraries, called as their users call them. It reads requests from
// standard input and writes answers to standard output; docs/client-protocol.md describes both.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"
)

type request struct {
	ID        any             `json:"id"`
	Op        string          `json:"op"`
	Lock      string          `json:"lock"`
	Kind      string          `json:"kind"`
	Addresses []address       `json:"addresses"`
	TTL       float64         `json:"ttl"`
	Options   json.RawMessage `json:"options"`
	Key       string          `json:"key"`
	Timeout   float64         `json:"timeout"`
}

// address is ["10.0.0.2", 6379] in JSON.
type address string

func (a *address) UnmarshalJSON(data []byte) error {
	var host string
	var port int
	if err := json.Unmarshal(data, &[]any{&host, &port}); err != nil {
		return fmt.Errorf("expected [host, port], got %s: %w", data, err)
	}
	*a = address(fmt.Sprintf("%s:%d", host, port))
	return nil
}

type grant struct {
	Fence    *int64   `json:"fence"`
	ValidFor *float64 `json:"valid_for"`
}

// locks are the locks of one library, for all keys of a client.
type locks interface {
	acquire(key string, timeout time.Duration) (grant, error)
	release(key string) error
	stillValid(key string) (bool, error)
	close()
}

// extending is implemented by locks whose lease can be prolonged.
type extending interface {
	extend(key string) (bool, error)
}

// refused is an outcome: the operation is known not to have happened.
type refused string

func (r refused) Error() string { return string(r) }

// doubtful is an outcome: it is unknown whether the operation happened.
type doubtful string

func (d doubtful) Error() string { return string(d) }

const (
	busy      = refused("busy")
	notHolder = refused("not the holder")
)

var openers = map[string]func(request) (locks, error){
	"bsm-redislock":  openRedislock,
	"consul-go-lock": openConsul,
	"go-etcd-mutex":  openEtcd,
	"redsync":        openRedsync,
}

func main() {
	input, output := bufio.NewReader(os.Stdin), json.NewEncoder(os.Stdout)
	var opened locks
	for {
		line, err := input.ReadBytes('\n')
		if err != nil {
			return
		}
		var asked request
		var value any
		if err = json.Unmarshal(line, &asked); err == nil {
			value, err = answer(&opened, asked)
		}
		if output.Encode(reply(asked.ID, value, err)) != nil || asked.Op == "close" {
			return
		}
	}
}

func reply(id, value any, err error) map[string]any {
	var no refused
	var unclear doubtful
	switch {
	case err == nil:
		return map[string]any{"id": id, "ok": value}
	case errors.As(err, &no):
		return map[string]any{"id": id, "fail": string(no)}
	case errors.As(err, &unclear):
		return map[string]any{"id": id, "info": string(unclear)}
	}
	return map[string]any{"id": id, "error": err.Error()}
}

func answer(opened *locks, asked request) (any, error) {
	if asked.Op == "open" {
		return nil, open(opened, asked)
	}
	if asked.Op == "close" {
		if *opened != nil {
			(*opened).close()
		}
		return nil, nil
	}
	if *opened == nil {
		return nil, fmt.Errorf("%q before open", asked.Op)
	}
	switch asked.Op {
	case "acquire":
		return (*opened).acquire(asked.Key, seconds(asked.Timeout))
	case "release":
		return nil, (*opened).release(asked.Key)
	case "still_valid":
		return (*opened).stillValid(asked.Key)
	case "extend":
		if lock, ok := (*opened).(extending); ok {
			return lock.extend(asked.Key)
		}
	}
	return nil, fmt.Errorf("unknown op %q", asked.Op)
}

func open(opened *locks, asked request) error {
	opener, known := openers[asked.Lock]
	if !known {
		return fmt.Errorf("unknown lock %q", asked.Lock)
	}
	if *opened != nil {
		return errors.New("open is the first request, and the only one of its kind")
	}
	made, err := opener(asked)
	if err == nil {
		*opened = made
	}
	return err
}

func seconds(value float64) time.Duration {
	return time.Duration(value * float64(time.Second))
}
