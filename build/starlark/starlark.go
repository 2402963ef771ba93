// SPDX-License-Identifier: Apache-2.0

// Package starlark runs the starlark functions of kpt in process: scripts that edit
// a list of Kubernetes objects. It needs no container engine. Scripts have no
// access to the network and to files, and their steps, time and memory are limited.
package starlark

import (
	"context"
	gojson "encoding/json"
	"errors"
	"fmt"
	"runtime/metrics"
	"time"

	starlarkjson "go.starlark.net/lib/json"
	"go.starlark.net/lib/math"
	"go.starlark.net/starlark"
	"go.starlark.net/starlarkstruct"
	"go.starlark.net/syntax"
	"k8s.io/apimachinery/pkg/util/json"
)

// Limits are the limits of a run. The zero value means the defaults.
type Limits struct {
	// Steps limits the steps of the interpreter; 0 means 200 million.
	Steps uint64
	// Time limits the time of the run; 0 means 30 seconds.
	Time time.Duration
	// Memory limits the growth of the process's heap, in bytes; 0 means 1 GiB.
	Memory uint64
}

func (l Limits) withDefaults() Limits {
	if l.Steps == 0 {
		l.Steps = 200_000_000
	}
	if l.Time == 0 {
		l.Time = 30 * time.Second
	}
	if l.Memory == 0 {
		l.Memory = 1 << 30
	}
	return l
}

// These are the options of kpt's starlark function: control flow at the top level,
// and sets.
var dialect = &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true, Recursion: true}

// Run executes a script with list as ctx.resource_list, and returns the dictionary
// that the script leaves in ctx.resource_list. list has only the types of decoded
// JSON. name is the file name in errors. If a script reaches a limit, the error
// names the limit.
func Run(ctx context.Context, name, script string, list map[string]any, limits Limits) (map[string]any, error) {
	limits = limits.withDefaults()
	encoded, err := gojson.Marshal(list)
	if err != nil {
		return nil, fmt.Errorf("passing the objects to %s: %w", name, err)
	}
	thread := &starlark.Thread{Name: name, Print: func(*starlark.Thread, string) {}}
	resources, err := convert(thread, "decode", starlark.String(encoded))
	if err != nil {
		return nil, fmt.Errorf("passing the objects to %s: %w", name, err)
	}
	context := &module{starlark.StringDict{"resource_list": resources}}
	thread.SetMaxExecutionSteps(limits.Steps)
	stop := watch(ctx, thread, limits)
	defer stop()
	predeclared := starlark.StringDict{"ctx": context, "json": starlarkjson.Module, "math": math.Module, "struct": starlark.NewBuiltin("struct", starlarkstruct.Make)}
	if _, err := starlark.ExecFileOptions(dialect, thread, name, script, predeclared); err != nil {
		return nil, fmt.Errorf("running %s: %w", name, described(err))
	}
	result, err := convert(thread, "encode", context.members["resource_list"])
	edited := map[string]any{}
	if err == nil {
		err = json.Unmarshal([]byte(result.(starlark.String)), &edited) // numbers are int64, or float64
	}
	if err != nil {
		return nil, fmt.Errorf("reading the result of %s: want ctx.resource_list to be a dictionary: %w", name, err)
	}
	return edited, nil
}

// convert converts a value to or from JSON with a function of Starlark's module.
func convert(thread *starlark.Thread, function string, value starlark.Value) (starlark.Value, error) {
	return starlark.Call(thread, starlarkjson.Module.Members[function], starlark.Tuple{value}, nil)
}

// described adds the position in the script to an error.
func described(err error) error {
	if failure, ok := errors.AsType[*starlark.EvalError](err); ok {
		for i := range failure.CallStack {
			if frame := failure.CallStack.At(i); frame.Pos.Line > 0 {
				return fmt.Errorf("line %d: %w", frame.Pos.Line, err)
			}
		}
	}
	return err
}

// watch cancels the thread when the context ends or a limit is reached.
func watch(ctx context.Context, thread *starlark.Thread, limits Limits) (stop func()) {
	done, start := make(chan struct{}), heapBytes()
	ticker, deadline := time.NewTicker(20*time.Millisecond), time.NewTimer(limits.Time)
	go func() {
		defer ticker.Stop()
		defer deadline.Stop()
		for {
			select {
			case <-done:
				return
			case <-ctx.Done():
				thread.Cancel(ctx.Err().Error())
			case <-deadline.C:
				thread.Cancel(fmt.Sprintf("time limit of %s exceeded", limits.Time))
			case <-ticker.C:
				if heapBytes() > start+limits.Memory {
					thread.Cancel(fmt.Sprintf("memory limit of %d MiB exceeded", limits.Memory>>20))
				}
			}
		}
	}()
	return func() { close(done) }
}

func heapBytes() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// module is the value of ctx: the script reads and assigns its members.
type module struct{ members starlark.StringDict }

var _ starlark.HasSetField = (*module)(nil)

func (m *module) String() string        { return "ctx" }
func (m *module) Type() string          { return "context" }
func (m *module) Freeze()               {}
func (m *module) Truth() starlark.Bool  { return true }
func (m *module) Hash() (uint32, error) { return 0, errors.New("ctx is not hashable") }
func (m *module) AttrNames() []string   { return m.members.Keys() }

// Attr returns a member, or nil if it does not exist.
func (m *module) Attr(name string) (starlark.Value, error) {
	if value, ok := m.members[name]; ok {
		return value, nil
	}
	return nil, nil
}

// SetField assigns a member.
func (m *module) SetField(name string, value starlark.Value) error {
	m.members[name] = value
	return nil
}
