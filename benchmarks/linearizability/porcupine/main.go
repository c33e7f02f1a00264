// Checks one history of ours with Porcupine and prints what it found as one line of JSON.
//
//	porcupine -model owner-mutex -timeout 60s history.jsonl
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/anishathalye/porcupine"
)

// report is what is printed. Seconds are those of the check alone, of the processor and by the clock on the wall; Peak is
// the resident memory of the whole process at its highest, in bytes.
type report struct {
	Verdict porcupine.CheckResult `json:"verdict"`
	Read    float64               `json:"read"`
	Seconds float64               `json:"seconds"`
	Wall    float64               `json:"wall"`
	Calls   int                   `json:"calls"`
	Peak    int64                 `json:"peak"`
}

func main() {
	name := flag.String("model", "owner-mutex", "one of the models of models.go")
	timeout := flag.Duration("timeout", time.Minute, "after which the verdict is Unknown")
	evidence := flag.Bool("evidence", false, "a failed cas says that the value was another one")
	flag.Parse()
	found, err := check(*name, flag.Arg(0), *timeout, *evidence)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	_ = json.NewEncoder(os.Stdout).Encode(found)
}

func check(name, path string, timeout time.Duration, evidence bool) (report, error) {
	model, known := models[name]
	if !known {
		return report{}, fmt.Errorf("no model %q", name)
	}
	events, err := read(path, evidence)
	if err != nil {
		return report{}, err
	}
	began, begun := time.Now(), processor()
	verdict := porcupine.CheckEventsTimeout(model, events, timeout)
	seconds, wall := (processor() - begun).Seconds(), time.Since(began).Seconds()
	return report{verdict, begun.Seconds(), seconds, wall, len(events) / 2, peak()}, nil
}

// processor is the time that this process has had of the processor so far, its collection of garbage included.
func processor() time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		panic(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// peak reads VmHWM, which is of this program; what getrusage says may be of the one that started it.
func peak() int64 {
	status, _ := os.ReadFile("/proc/self/status")
	for _, line := range strings.Split(string(status), "\n") {
		var kilobytes int64
		if _, err := fmt.Sscanf(line, "VmHWM: %d kB", &kilobytes); err == nil {
			return kilobytes * 1024
		}
	}
	return 0
}
