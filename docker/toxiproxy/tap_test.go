package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net"
	"testing"
	"time"
)

// listen connects a listener to the tap; the function reads the next chunk that it hears.
func listen(t *testing.T) (net.Conn, func() heard) {
	t.Helper()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go theTap.serve(port)
	conn, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(); port.Close() })
	for open := false; !open; time.Sleep(time.Millisecond) {
		theTap.mutex.Lock()
		open = theTap.listener != nil
		theTap.mutex.Unlock()
	}
	lines := bufio.NewScanner(conn)
	return conn, func() heard {
		t.Helper()
		conn.SetReadDeadline(time.Now().Add(5 * time.Second))
		var next heard
		if !lines.Scan() || json.Unmarshal(lines.Bytes(), &next) != nil {
			t.Fatalf("heard %q", lines.Text())
		}
		return next
	}
}

func tapped(t *testing.T, direction string) *SnareToxic {
	t.Helper()
	toxic := new(SnareToxic)
	change(t, toxic, fmt.Sprintf(`{"at": {"link": "n1", "direction": "%s"}}`, direction))
	return toxic
}

func TestAChunkWaitsUntilTheListenerLetsItPass(t *testing.T) {
	conn, next := listen(t)
	_, in, out := pipe(t, tapped(t, "request"))
	send(in, "GET k0")
	chunk := next()
	if chunk.Link != "n1" || chunk.Direction != "request" || chunk.Connection != 1 || string(chunk.Data) != "GET k0" {
		t.Fatalf("heard %+v", chunk)
	}
	nothing(t, out, 50*time.Millisecond)
	fmt.Fprintf(conn, "%d\n", chunk.ID)
	expect(t, out, "GET k0")
}

func TestTheDirectionsOfAConnectionHaveTheSameNumber(t *testing.T) {
	conn, next := listen(t)
	requests, replies := tapped(t, "request"), tapped(t, "reply")
	pipe(t, requests)
	pipe(t, replies)
	_, in, _ := pipe(t, requests)
	_, back, _ := pipe(t, replies)
	send(in, "GET k0")
	request := next()
	fmt.Fprintf(conn, "%d\n", request.ID)
	send(back, "$1 a")
	if reply := next(); request.Connection != 2 || reply.Connection != 2 || reply.Direction != "reply" {
		t.Fatalf("heard %+v and %+v", request, reply)
	}
}

func TestAChunkThatIsHeldSurvivesAChangeOfOtherToxics(t *testing.T) {
	conn, next := listen(t)
	toxic := tapped(t, "request")
	stub, in, out := pipe(t, toxic)
	send(in, "SET k0")
	chunk := next()
	stub.InterruptToxic()
	go toxic.Pipe(stub)
	nothing(t, out, 50*time.Millisecond)
	fmt.Fprintf(conn, "%d\n", chunk.ID)
	expect(t, out, "SET k0")
}

func TestATrapThatIsSetMeanwhileCatchesTheChunk(t *testing.T) {
	conn, next := listen(t)
	toxic := tapped(t, "request")
	_, in, out := pipe(t, toxic)
	send(in, "SET k0")
	chunk := next()
	change(t, toxic, losesSet)
	fmt.Fprintf(conn, "%d\n", chunk.ID)
	nothing(t, out, 50*time.Millisecond)
}

func TestAChunkWithANegatedAnswerIsLostAndNothingPassesBehindIt(t *testing.T) {
	conn, next := listen(t)
	_, in, out := pipe(t, tapped(t, "request"))
	send(in, "EXPIRE k0 2")
	fmt.Fprintf(conn, "-%d\n", next().ID)
	send(in, "GET k0")
	nothing(t, out, 50*time.Millisecond)
}

func TestWhatIsHeldPassesWhenTheListenerGoes(t *testing.T) {
	conn, next := listen(t)
	_, in, out := pipe(t, tapped(t, "request"))
	send(in, "GET k0")
	next()
	conn.Close()
	expect(t, out, "GET k0")
	send(in, "GET k1")
	expect(t, out, "GET k1")
}
