package main

import (
	"bytes"
	"encoding/json"
	"sync"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// lose is the delay of a trap whose catch is never delivered.
const lose = -1

// maxQueue is how many chunks wait behind a held one before senders block, as they do behind Toxiproxy's latency toxic.
// Without a queue the toxics before this one could not be interrupted, thus not removed, while a message is held.
const maxQueue = 1024

// trap lies in wait for the next chunk of data that contains its needle, on whichever connection of the proxy.
//
// A chunk is what one read of the socket returned, at most 32 KiB. Commands and replies of Redis are small and each is
// sent with one write, so that one chunk is one message; commands sent together (a pipeline) are caught together, and a
// needle that straddles two chunks is not found.
type trap struct {
	Needle []byte `json:"needle"` // base64 in JSON; empty: any data
	Delay  int64  `json:"delay"`  // milliseconds, or lose
	Count  int    `json:"count"`  // chunks to catch
	Used   int    `json:"used"`   // chunks caught so far

	disarmed bool
}

// SnareToxic loses single messages, or holds them back. Behind a lost one nothing passes any more in that direction of
// that connection, since a TCP stream has no holes; all other data passes untouched. A message held back arrives
// even if its sender has closed the connection since: it was on its way. Later data of the same direction of the same
// connection waits behind it, as TCP must make it; the connection's other direction and other connections go on.
//
// One toxic has any number of traps and is meant to stay for as long as its proxy, as the first of its direction:
// Toxiproxy, told to remove a toxic, wants its data at once, and it loses track of a half-closed connection (a message
// is held, its sender gone) when it removes a toxic in front of one that still holds data. So traps are set and
// disarmed by updates of the toxic: {"attributes": {"set": {"NAME": {"needle": ..., "delay": ..., "count": 1}}}} and
// {"attributes": {"disarm": ["NAME"]}}. A message that is held stays held when its trap is disarmed. If the toxic is
// removed all the same, what it holds is delivered at once.
//
// Read back, the attributes are {"traps": {"NAME": {..., "used": 0}}, "held": 0}; a disarmed trap is there until the
// next one is set.
//
// Each chunk is shown to the listener of theTap first, if there is one and the toxic was told its place:
// {"attributes": {"at": {"link": "n1", "direction": "request"}}}. A trap that is set meanwhile may still catch it.
// Toxiproxy starts both directions of a connection one after the other, so equal numbers are one connection.
type SnareToxic struct {
	mutex       sync.Mutex // one toxic serves all connections of its proxy, and the API beside
	traps       map[string]*trap
	held        int
	at          place
	connections int
}

// place says where a toxic is: on which link, in which direction.
type place struct {
	Link      string `json:"link"`
	Direction string `json:"direction"`
}

// snareState is per connection. It outlives Pipe, which ends and starts again at every change to neighbouring toxics.
type snareState struct {
	number int                 // of the connection, from 1
	chunk  *stream.StreamChunk // nil: nothing held
	asked  <-chan bool         // tells whether the held chunk is to be lost; nil: it is held until due
	due    time.Time
	gap    bool // data is missing for ever
}

func init() {
	toxics.Register("snare", new(SnareToxic))
}

// GetBufferSize makes this a toxics.BufferedToxic.
func (t *SnareToxic) GetBufferSize() int { return maxQueue }

// NewState makes this a toxics.StatefulToxic.
func (t *SnareToxic) NewState() interface{} {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.connections++
	return &snareState{number: t.connections}
}

// UnmarshalJSON sets and disarms traps. Toxiproxy calls it while connections are in Pipe, hence the lock.
func (t *SnareToxic) UnmarshalJSON(data []byte) error {
	var change struct {
		Set    map[string]*trap `json:"set"`
		Disarm []string         `json:"disarm"`
		At     *place           `json:"at"`
	}
	if err := json.Unmarshal(data, &change); err != nil {
		return err
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if change.At != nil {
		t.at = *change.At
	}
	for _, name := range change.Disarm {
		if known := t.traps[name]; known != nil {
			known.disarmed = true
		}
	}
	if len(change.Set) == 0 {
		return nil
	}
	kept := make(map[string]*trap)
	for name, known := range t.traps {
		if !known.disarmed {
			kept[name] = known
		}
	}
	for name, fresh := range change.Set {
		if fresh != nil {
			kept[name] = fresh
		}
	}
	t.traps = kept
	return nil
}

// MarshalJSON tells what the API shows of the toxic.
func (t *SnareToxic) MarshalJSON() ([]byte, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	return json.Marshal(map[string]interface{}{"traps": t.traps, "held": t.held})
}

// Pipe passes data on until it is interrupted or the connection ends.
func (t *SnareToxic) Pipe(stub *toxics.ToxicStub) {
	state := stub.State.(*snareState)
	for {
		if state.asked != nil {
			select {
			case <-stub.Interrupt:
				return
			case lost := <-state.asked:
				chunk := state.chunk
				state.asked, state.chunk = nil, nil
				state.gap = state.gap || lost
				t.pass(stub, state, chunk)
			}
			continue
		}
		if state.chunk != nil {
			timer := time.NewTimer(time.Until(state.due))
			select {
			case <-stub.Interrupt:
				timer.Stop()
				return
			case <-timer.C:
				t.release(stub, state)
			}
			continue
		}
		select {
		case <-stub.Interrupt:
			return
		case chunk := <-stub.Input:
			if chunk == nil {
				stub.Close()
				return
			}
			if asked := t.ask(state, chunk.Data); asked != nil {
				state.asked, state.chunk = asked, chunk
			} else {
				t.pass(stub, state, chunk)
			}
		}
	}
}

// ask shows data to the listener of the tap. The channel is nil if the data may pass now.
func (t *SnareToxic) ask(state *snareState, data []byte) <-chan bool {
	t.mutex.Lock()
	at := t.at
	t.mutex.Unlock()
	if at.Link == "" || state.gap {
		return nil
	}
	return theTap.ask(at.Link, at.Direction, state.number, data)
}

// pass lets a chunk through, unless a trap catches it.
func (t *SnareToxic) pass(stub *toxics.ToxicStub, state *snareState, chunk *stream.StreamChunk) {
	switch delay, caught := t.spring(chunk.Data); {
	case caught && delay <= lose || state.gap:
		state.gap = true
	case !caught:
		stub.Output <- chunk
	default:
		hold := time.Duration(delay) * time.Millisecond
		state.due = time.Now().Add(hold)
		// A latency toxic further on counts from here; without this it would think the message late enough.
		chunk.Timestamp = chunk.Timestamp.Add(hold)
		state.chunk = chunk
	}
}

// Cleanup makes this a toxics.CleanupToxic: the last chance, when the toxic is removed, for what it holds.
func (t *SnareToxic) Cleanup(stub *toxics.ToxicStub) {
	switch state := stub.State.(*snareState); {
	case state.asked != nil:
		stub.Output <- state.chunk
		state.asked, state.chunk = nil, nil
	case state.chunk != nil:
		t.release(stub, state)
	}
}

func (t *SnareToxic) release(stub *toxics.ToxicStub, state *snareState) {
	chunk := state.chunk
	state.chunk = nil
	stub.Output <- chunk
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.held--
}

// spring looks for a trap that catches data, and says for how many milliseconds.
func (t *SnareToxic) spring(data []byte) (delay int64, caught bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for _, armed := range t.traps {
		if armed.disarmed || armed.Used >= armed.Count || !bytes.Contains(data, armed.Needle) {
			continue
		}
		armed.Used++
		if armed.Delay > lose {
			t.held++
		}
		return armed.Delay, true
	}
	return 0, false
}
