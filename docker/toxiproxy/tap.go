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
// answers with a line that has the chunk's id; or with the id negated, if the chunk is to be lost like one in a trap.
// So a listener can act after a request was sent and before it arrives.
// There is one listener at most: the last one that connected. When its connection ends, what it holds passes on.
type tap struct {
	mutex    sync.Mutex
	listener net.Conn // nil: nobody listens, and nothing is held
	last     uint64
	waiting  map[uint64]chan bool
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

// ask tells the listener of a chunk. The channel is closed when the chunk may pass, or has true if it is to be lost; it
// is nil if the chunk may pass now.
func (t *tap) ask(link string, direction string, connection int, data []byte) <-chan bool {
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
	passes := make(chan bool, 1)
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
		if id, err := strconv.ParseInt(answers.Text(), 10, 64); err == nil {
			t.answer(id)
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
	t.listener, t.waiting = conn, make(map[uint64]chan bool)
}

// answer lets a chunk pass, or loses it if the id is negative.
func (t *tap) answer(id int64) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	number := uint64(max(id, -id))
	if passes := t.waiting[number]; passes != nil {
		delete(t.waiting, number)
		if id < 0 {
			passes <- true
		}
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
