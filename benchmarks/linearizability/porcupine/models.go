package main

import (
	"math"
	"strconv"
	"strings"

	"github.com/anishathalye/porcupine"
)

// models are those of checkers/models/, with the same answers. One rule is added for calls of unknown outcome: where
// they cannot take effect, they have none. That and their return at the end of the history say together that they
// may have happened or not, with a model that still leaves nothing open; it is what Porcupine's own tests do, and quicker
// than a NondeterministicModel, which carries sets of states.
var models = map[string]porcupine.Model{
	"mutex":           {Init: free, Step: anonymous},
	"semaphore":       {Init: func() interface{} { return 0 }, Step: counted},
	"owner-mutex":     {Init: free, Step: owned},
	"reentrant-mutex": {Init: func() interface{} { return reentrant{none, 0} }, Step: again},
	"fenced-mutex":    {Init: func() interface{} { return fenced{none, none} }, Step: tokens},
	"lease-mutex":     {Init: func() interface{} { return leased{holder: none} }, Step: leases},
	"rw-lock":         {Init: func() interface{} { return shared{writer: none} }, Step: readers},
	"fifo-lock":       {Init: func() interface{} { return queued{none, ""} }, Step: inTurn},
	"register":        {Init: free, Step: register},
	"cas-register":    {Init: free, Step: register},
}

// free is a lock that nobody holds, and a register that holds nothing.
func free() interface{} { return none }

const held = 0

func anonymous(state, in, out interface{}) (bool, interface{}) {
	acquires := in.(input).f == "acquire"
	if acquires == (state.(int) == none) {
		if acquires {
			return true, held
		}
		return true, none
	}
	return out.(output).unknown, state
}

// permits is that of generate.py.
const permits = 3

// counted is a semaphore: how many permits are taken.
func counted(state, in, out interface{}) (bool, interface{}) {
	taken, acquires := state.(int), in.(input).f == "acquire"
	switch {
	case acquires && taken < permits:
		return true, taken + 1
	case !acquires && taken > 0:
		return true, taken - 1
	}
	return out.(output).unknown, state
}

func owned(state, in, out interface{}) (bool, interface{}) {
	owner, call := state.(int), in.(input)
	switch {
	case call.f == "acquire" && owner == none:
		return true, call.process
	case call.f == "release" && owner == call.process:
		return true, none
	}
	return out.(output).unknown, state
}

// reentrant is a lock: who holds it, and how often it was acquired.
type reentrant struct{ owner, depth int }

func again(state, in, out interface{}) (bool, interface{}) {
	lock, call := state.(reentrant), in.(input)
	switch {
	case call.f == "acquire" && (lock.owner == none || lock.owner == call.process):
		return true, reentrant{call.process, lock.depth + 1}
	case call.f == "release" && lock.owner == call.process && lock.depth > 1:
		return true, reentrant{lock.owner, lock.depth - 1}
	case call.f == "release" && lock.owner == call.process:
		return true, reentrant{none, 0}
	}
	return out.(output).unknown, state
}

// fenced is a lock: who holds it, and the highest token so far.
type fenced struct{ owner, highest int }

func tokens(state, in, out interface{}) (bool, interface{}) {
	lock, call, answer := state.(fenced), in.(input), out.(output)
	switch {
	case call.f == "acquire" && lock.owner == none && answer.number == none:
		return true, fenced{call.process, lock.highest}
	case call.f == "acquire" && lock.owner == none && answer.number > lock.highest:
		return true, fenced{call.process, answer.number}
	case call.f == "release" && lock.owner == call.process:
		return true, fenced{none, lock.highest}
	}
	return answer.unknown, state
}

const never = math.MaxInt64

// leased is a lock: who holds it, the earliest end of its lease, the earliest time that it can be now, and, a bit for
// each, the clients whose leases ended by a grant to another one before they released.
type leased struct {
	holder     int
	until, now int64
	lapsed     uint64
}

func leases(state, in, out interface{}) (bool, interface{}) {
	lock, call, answer := state.(leased), in.(input), out.(output)
	me, now := uint64(1)<<call.process, max(lock.now, call.began)
	if now > answer.ended {
		return false, state
	}
	switch {
	case call.f == "acquire":
		lapsed := lock.lapsed
		if lock.holder != none {
			now = max(now, lock.until)
			if now > answer.ended || lock.until == never {
				return answer.unknown, state
			}
			lapsed |= uint64(1) << lock.holder
		}
		return true, leased{call.process, promised(answer, now), now, lapsed &^ me}
	case lock.holder == call.process:
		return true, leased{none, 0, now, lock.lapsed}
	case lock.lapsed&me != 0:
		return true, leased{lock.holder, lock.until, now, lock.lapsed &^ me}
	}
	return answer.unknown, state
}

// promised gives the earliest end of the lease that a call was granted. One of unknown outcome was promised nothing.
func promised(answer output, now int64) int64 {
	switch {
	case answer.unknown:
		return now
	case answer.lease == none:
		return never
	}
	return answer.ended + answer.lease
}

// shared is a lock for many readers, a bit for each, or one writer.
type shared struct {
	writer  int
	readers uint64
}

func readers(state, in, out interface{}) (bool, interface{}) {
	lock, call := state.(shared), in.(input)
	me := uint64(1) << call.process
	switch {
	case call.f == "acquire" && lock.writer == none && call.reads && lock.readers&me == 0:
		return true, shared{none, lock.readers | me}
	case call.f == "acquire" && lock.writer == none && !call.reads && lock.readers == 0:
		return true, shared{call.process, 0}
	case call.f == "release" && lock.writer == call.process:
		return true, shared{none, 0}
	case call.f == "release" && lock.readers&me != 0:
		return true, shared{none, lock.readers &^ me}
	}
	return out.(output).unknown, state
}

// queued is a lock with a queue: who holds it, and the numbers of those that wait, each with a comma after it.
type queued struct {
	owner   int
	waiting string
}

func inTurn(state, in, out interface{}) (bool, interface{}) {
	lock, call := state.(queued), in.(input)
	me := strconv.Itoa(call.process) + ","
	waits := strings.HasPrefix(lock.waiting, me) || strings.Contains(lock.waiting, ","+me)
	switch {
	case call.f == "enqueue" && !waits:
		return true, queued{lock.owner, lock.waiting + me}
	case call.f == "acquire" && lock.owner == none && lock.waiting == "":
		return true, queued{call.process, ""}
	case call.f == "acquire" && lock.owner == none && strings.HasPrefix(lock.waiting, me):
		return true, queued{call.process, strings.TrimPrefix(lock.waiting, me)}
	case call.f == "release" && lock.owner == call.process:
		return true, queued{none, lock.waiting}
	}
	return out.(output).unknown, state
}

func register(state, in, out interface{}) (bool, interface{}) {
	value, call, answer := state.(int), in.(input), out.(output)
	switch call.f {
	case "read":
		return answer.unknown || answer.number == value, state
	case "write":
		return true, call.new
	}
	if value == call.old && !answer.failed {
		return true, call.new
	}
	return answer.unknown || answer.failed && value != call.old, state
}
