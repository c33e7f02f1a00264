package main

import (
	"bufio"
	"encoding/json"
	"net"
	"strconv"
	"sync"
)

// heard is what the listener is told of a chunk: a line of JSON.
type heard struct {
	ID         uint64 `json:"id"`
	Link       string `json:"link"`
	Direction  string `json:"direction"`
	Connection int    `json:"connection"` // the same number for both directions of a connection
	Data       []byte `json:"data"`       // base64 in JSON
}

// tap tells a listener of every chunk of data on every link of this process, and holds the chunk until the listener
// answers with a line that has the chunk's id. So a listener can act after a request was sent and before it arrives.
// There is one listener at most: the last one that connected. When its connection ends, what it holds passes on.
type tap struct {
	mutex    sync.Mutex
	listener net.Conn // nil: nobody listens, and nothing is held
	last     uint64
	waiting  map[uint64]chan struct{}
}

// theTap serves all links of this process.
var theTap = new(tap)

// serve accepts listeners until the port is closed.
func (t *tap) serve(port net.Listener) {
	for {
		conn, err := port.Accept()
		if err != nil {
			return
		}
		t.replace(conn)
		go t.listen(conn)
	}
}

// ask tells the listener of a chunk. The channel is closed when the chunk may pass; it is nil if it may pass now.
func (t *tap) ask(link string, direction string, connection int, data []byte) <-chan struct{} {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.listener == nil {
		return nil
	}
	t.last++
	line, err := json.Marshal(heard{t.last, link, direction, connection, data})
	if err != nil {
		return nil
	}
	passes := make(chan struct{})
	t.waiting[t.last] = passes
	if _, err := t.listener.Write(append(line, '\n')); err != nil {
		t.end()
	}
	return passes
}

// listen reads the answers of a listener until its connection ends.
func (t *tap) listen(conn net.Conn) {
	answers := bufio.NewScanner(conn)
	for answers.Scan() {
		if id, err := strconv.ParseUint(answers.Text(), 10, 64); err == nil {
			t.pass(id)
		}
	}
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.listener == conn {
		t.end()
	}
}

func (t *tap) replace(conn net.Conn) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.end()
	t.listener, t.waiting = conn, make(map[uint64]chan struct{})
}

func (t *tap) pass(id uint64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if passes := t.waiting[id]; passes != nil {
		delete(t.waiting, id)
		close(passes)
	}
}

// end lets everything pass that is held; the mutex must be held.
func (t *tap) end() {
	if t.listener != nil {
		t.listener.Close()
		t.listener = nil
	}
	for _, passes := range t.waiting {
		close(passes)
	}
	t.waiting = nil
}
