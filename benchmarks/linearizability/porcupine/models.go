package main

import "github.com/anishathalye/porcupine"

// models are those of checkers/models/, with the same answers. One rule is added for calls of unknown outcome: where
// they cannot take effect, they have none. That and their return at the end of the history say together that they
// may have happened or not, with a model that still leaves nothing open; it is what Porcupine's own tests do, and quicker
// than a NondeterministicModel, which carries sets of states.
var models = map[string]porcupine.Model{
	"mutex":        {Init: free, Step: anonymous},
	"owner-mutex":  {Init: free, Step: owned},
	"fenced-mutex": {Init: func() interface{} { return fenced{none, none} }, Step: tokens},
	"register":     {Init: free, Step: register},
	"cas-register": {Init: free, Step: register},
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

func register(state, in, out interface{}) (bool, interface{}) {
	value, call, answer := state.(int), in.(input), out.(output)
	switch call.f {
	case "read":
		return answer.unknown || answer.number == value, state
	case "write":
		return true, call.new
	}
	if value == call.old {
		return true, call.new
	}
	return answer.unknown, state
}
