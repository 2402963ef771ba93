// SPDX-License-Identifier: Apache-2.0

// Bench measures this project's programs beside programs that do the same task:
// the extractor beside crane export, and capi-installer beside kubectl apply. It prints one
// table, writes it as JSON, and compares it with a committed baseline. docs/maintainers/performance.md
// explains each row.
//
//	go run ./test/bench
//	go run ./test/bench -suites extract,rollout -round-trips 0s
//
// The exit code is 0, or 1 if a measurement failed, or 2 if a row is more than 15 % worse than in the baseline, or grows
// faster than the load.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

func main() {
	log.SetLogger(logr.Discard())
	os.Exit(exitCode(newOptions()))
}

// exitCode runs the measurements and returns the exit code.
func exitCode(o *options) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	worse, err := o.run(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	case worse:
		return 2
	}
	return 0
}

// options are the flags.
type options struct {
	images, scale  int
	loadScale      int
	crowd          bool
	output         string
	baseline       string
	updateBaseline bool
	suites         []string
	roundTrips     []time.Duration
}

// suites are the parts of a run, in their order.
var suites = map[string]func(context.Context, *run) error{"extract": extraction, "rollout": rollouts, "load": load}

func newOptions() *options {
	o := &options{}
	flag.IntVar(&o.images, "images", 20, "number of images of the extractor's rows")
	flag.IntVar(&o.scale, "scale", 1, "divisor of the sizes of these images")
	flag.IntVar(&o.loadScale, "load-scale", 1, "divisor of the load")
	flag.BoolVar(&o.crowd, "crowd", false, "run the rollouts in a large cluster, without kubectl; the rows are not compared with the baseline")
	flag.StringVar(&o.output, "output", "_output/bench.json", "file for the results in JSON")
	flag.StringVar(&o.baseline, "baseline", "test/bench/baseline.json", "results to compare with")
	flag.BoolVar(&o.updateBaseline, "update-baseline", false, "replace the measured rows of the baseline")
	names := flag.String("suites", "extract,rollout,load", "comma-separated suites to run")
	roundTrips := flag.String("round-trips", "0s,20ms", "comma-separated latencies of requests")
	flag.Parse()
	o.suites = strings.Split(*names, ",")
	for text := range strings.SplitSeq(*roundTrips, ",") {
		roundTrip, err := time.ParseDuration(text)
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		o.roundTrips = append(o.roundTrips, roundTrip)
	}
	return o
}

// run is one run of the measurements.
type run struct {
	*options
	dir string // for temporary files
	results
}

// run measures, prints and compares, and reports whether a row is worse than allowed.
func (o *options) run(ctx context.Context) (worse bool, err error) {
	dir, err := os.MkdirTemp("", "capi-installer-bench-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := &run{options: o, dir: dir}
	failed := r.measure(ctx)
	worse, err = r.report()
	return worse, errors.Join(failed, err)
}

// measure runs the suites, up to the first that fails.
func (r *run) measure(ctx context.Context) error {
	for _, suite := range r.suites {
		if suites[suite] == nil {
			return fmt.Errorf("unknown suite %q", suite)
		}
		if err := suites[suite](ctx, r); err != nil {
			return fmt.Errorf("suite %s: %w", suite, err)
		}
	}
	return nil
}

// report prints the table and the rows that are worse than allowed, and writes the files.
func (r *run) report() (worse bool, err error) {
	baseline, err := readResults(r.baseline)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	if err := r.print(os.Stdout, baseline); err != nil {
		return false, err
	}
	if err := r.write(r.output); err != nil {
		return false, err
	}
	found := slices.Concat(r.worse(baseline), r.superlinear())
	for _, text := range found {
		fmt.Println("WORSE", text)
	}
	if r.updateBaseline && !r.crowd {
		return false, baseline.merge(r.results).write(r.baseline)
	}
	return len(found) > 0, nil
}

// progress tells the user about the current measurement.
func progress(format string, arguments ...any) {
	fmt.Fprintf(os.Stderr, time.Now().Format(time.TimeOnly)+" "+format+"\n", arguments...)
}

// folder makes a temporary folder.
func (r *run) folder(name string) (string, error) {
	dir := filepath.Join(r.dir, name)
	return dir, os.MkdirAll(dir, 0o755)
}
