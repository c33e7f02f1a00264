package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
	"github.com/Shopify/toxiproxy/v2/toxics"
)

// pipe runs one connection's end of a toxic; what it lets through comes out of the second channel.
func pipe(t *testing.T, toxic *SnareToxic) (*toxics.ToxicStub, chan *stream.StreamChunk, chan *stream.StreamChunk) {
	t.Helper()
	in, out := make(chan *stream.StreamChunk, maxQueue), make(chan *stream.StreamChunk, maxQueue)
	stub := toxics.NewToxicStub(in, out)
	stub.State = toxic.NewState()
	go stub.Run(&toxics.ToxicWrapper{Toxic: toxic, Toxicity: 1})
	return stub, in, out
}

func send(in chan *stream.StreamChunk, data string) {
	in <- &stream.StreamChunk{Data: []byte(data), Timestamp: time.Now()}
}

func expect(t *testing.T, out chan *stream.StreamChunk, want string) {
	t.Helper()
	select {
	case chunk := <-out:
		if chunk == nil || string(chunk.Data) != want {
			t.Fatalf("got %v, want %q", chunk, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatalf("%q did not come", want)
	}
}

func nothing(t *testing.T, out chan *stream.StreamChunk, wait time.Duration) {
	t.Helper()
	select {
	case chunk := <-out:
		t.Fatalf("got %v, want nothing", chunk)
	case <-time.After(wait):
	}
}

func change(t *testing.T, toxic *SnareToxic, attributes string) {
	t.Helper()
	if err := json.Unmarshal([]byte(attributes), toxic); err != nil {
		t.Fatal(err)
	}
}

// U0VU is SET and RFVM is DEL in base64.
const losesSet = `{"set": {"a": {"needle": "U0VU", "delay": -1, "count": 1}}}`
const holdsSet = `{"set": {"a": {"needle": "U0VU", "delay": 300, "count": 1}}}`

func TestLosesOneChunkWithTheNeedleOnAllConnectionsTogether(t *testing.T) {
	toxic := new(SnareToxic)
	change(t, toxic, losesSet)
	_, in, out := pipe(t, toxic)
	_, otherIn, otherOut := pipe(t, toxic)
	send(in, "GET k")
	expect(t, out, "GET k")
	send(otherIn, "SET k 1")
	send(otherIn, "PING")
	nothing(t, otherOut, 50*time.Millisecond) // not even what was sent behind it: a stream has no holes
	send(in, "SET k 2")
	expect(t, out, "SET k 2")
	shown, _ := json.Marshal(toxic)
	want := `{"held":0,"traps":{"a":{"needle":"U0VU","delay":-1,"count":1,"used":1}}}`
	if string(shown) != want {
		t.Fatalf("got %s, want %s", shown, want)
	}
}

func TestHoldsBackOverInterruptsAndAfterTheSenderIsGone(t *testing.T) {
	toxic := new(SnareToxic)
	change(t, toxic, holdsSet)
	stub, in, out := pipe(t, toxic)
	started := time.Now()
	send(in, "SET k 1")
	send(in, "later")
	close(in)
	for n := 0; n < 3; n++ { // as Toxiproxy does when other toxics come and go
		time.Sleep(20 * time.Millisecond)
		if !stub.InterruptToxic() {
			t.Fatal("closed while it holds a message")
		}
		go stub.Run(&toxics.ToxicWrapper{Toxic: toxic, Toxicity: 1})
	}
	change(t, toxic, `{"disarm": ["a"]}`)
	nothing(t, out, 100*time.Millisecond)
	expect(t, out, "SET k 1")
	if waited := time.Since(started); waited < 300*time.Millisecond {
		t.Fatalf("released after %s", waited)
	}
	expect(t, out, "later")
	if chunk := <-out; chunk != nil {
		t.Fatalf("got %v, want the end of the stream", chunk)
	}
}

func TestADisarmedTrapCatchesNothingAndGoesWithTheNextOne(t *testing.T) {
	toxic := new(SnareToxic)
	_, in, out := pipe(t, toxic)
	change(t, toxic, losesSet)
	change(t, toxic, `{"disarm": ["a", "never set"]}`)
	send(in, "SET k 1")
	expect(t, out, "SET k 1")
	change(t, toxic, `{"set": {"b": {"needle": "RFVM", "delay": -1, "count": 1}}}`)
	if len(toxic.traps) != 1 || toxic.traps["b"] == nil {
		t.Fatalf("traps %v", toxic.traps)
	}
}

func TestRemovedWhileItHoldsItDelivers(t *testing.T) {
	toxic := new(SnareToxic)
	change(t, toxic, `{"set": {"a": {"delay": 60000, "count": 1}}}`)
	stub, in, out := pipe(t, toxic)
	send(in, "anything")
	nothing(t, out, 20*time.Millisecond)
	stub.InterruptToxic()
	toxic.Cleanup(stub)
	expect(t, out, "anything")
}
