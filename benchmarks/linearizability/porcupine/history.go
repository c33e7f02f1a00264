package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	"github.com/anishathalye/porcupine"
)

// entry is a line of a history; see docs/histories.md.
type entry struct {
	Process int             `json:"process"`
	Type    string          `json:"type"`
	F       string          `json:"f"`
	Value   json.RawMessage `json:"value"`
	Node    string          `json:"node"`
	Time    int64           `json:"time"`
}

// input is what a call was invoked with and when, output what came back; what has no number is none. Times are in ns.
type input struct {
	f        string
	process  int
	old, new int
	reads    bool
	began    int64
}

type output struct {
	unknown bool
	failed  bool
	number  int
	lease   int64
	ended   int64
}

const none = -1

// read makes events of a history of one key. Calls that failed surely did not happen and are left out, as Knossos does,
// but for a failed cas if it is evidence; those of unknown outcome return at the end of the history, as in Porcupine's own tests on Jepsen's histories of etcd.
func read(path string, evidence bool) ([]porcupine.Event, error) {
	lines, err := load(path)
	if err != nil {
		return nil, err
	}
	events := make([]porcupine.Event, 0, len(lines))
	open := map[int]int{} // the process's call: its place in events
	failed := map[int]bool{}
	var unknown []int
	for number, line := range lines {
		at, begun := open[line.Process]
		switch {
		case line.Type == "invoke":
			open[line.Process] = len(events)
			what, err := inputOf(line)
			if err != nil {
				return nil, fmt.Errorf("%s, entry %d: %w", path, number, err)
			}
			events = append(events, porcupine.Event{Kind: porcupine.CallEvent, Value: what, Id: len(events)})
			continue
		case !begun:
			return nil, fmt.Errorf("%s, entry %d: process %d completes what it never invoked", path, number, line.Process)
		case line.Type == "ok":
			events = append(events, porcupine.Event{Kind: porcupine.ReturnEvent, Value: outputOf(line), Id: at})
		case line.Type == "fail" && line.F == "cas" && evidence:
			refused := output{failed: true, number: none, lease: none, ended: line.Time}
			events = append(events, porcupine.Event{Kind: porcupine.ReturnEvent, Value: refused, Id: at})
		case line.Type == "fail":
			failed[at] = true
		default:
			unknown = append(unknown, at)
		}
		delete(open, line.Process)
	}
	for _, at := range open {
		unknown = append(unknown, at)
	}
	for _, at := range unknown {
		lost := output{unknown: true, number: none, lease: none, ended: never}
		events = append(events, porcupine.Event{Kind: porcupine.ReturnEvent, Value: lost, Id: at})
	}
	kept := events[:0]
	for _, event := range events {
		if !failed[event.Id] {
			kept = append(kept, event)
		}
	}
	return kept, nil
}

// load reads the entries that clients made.
func load(path string) ([]entry, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	var lines []entry
	scanner := bufio.NewScanner(file)
	scanner.Buffer(nil, 1<<20)
	for scanner.Scan() {
		var line entry
		if err := json.Unmarshal(scanner.Bytes(), &line); err != nil {
			return nil, fmt.Errorf("%s, line %d: %w", path, len(lines)+1, err)
		}
		if line.Process >= 0 {
			lines = append(lines, line)
		}
	}
	return lines, scanner.Err()
}

func inputOf(line entry) (input, error) {
	what := input{f: line.F, process: clientOf(line), old: none, new: none, began: line.Time}
	var err error
	switch line.F {
	case "write":
		err = json.Unmarshal(line.Value, &what.new)
	case "cas":
		var pair [2]int
		err = json.Unmarshal(line.Value, &pair)
		what.old, what.new = pair[0], pair[1]
	case "acquire":
		var how struct{ Mode string }
		err = json.Unmarshal(line.Value, &how)
		what.reads = how.Mode == "read"
	case "read", "release", "enqueue":
	default:
		err = fmt.Errorf("no function %q", line.F)
	}
	return what, err
}

// outputOf gives the token and the lease of a grant, or what was read.
func outputOf(line entry) output {
	var grant struct {
		Fence *int     `json:"fence"`
		Valid *float64 `json:"valid_for"`
	}
	what := output{number: none, lease: none, ended: line.Time}
	switch {
	case line.F == "read" && line.Value != nil:
		_ = json.Unmarshal(line.Value, &what.number)
	case line.F == "acquire" && json.Unmarshal(line.Value, &grant) == nil:
		if grant.Fence != nil {
			what.number = *grant.Fence
		}
		if grant.Valid != nil {
			what.lease = int64(*grant.Valid * 1e9)
		}
	}
	return what
}

// clientOf gives the number of the client, which goes on as another process after an unknown outcome.
func clientOf(line entry) int {
	var client int
	if _, err := fmt.Sscanf(line.Node, "c%d", &client); err != nil {
		return line.Process
	}
	return client
}
