// SPDX-License-Identifier: Apache-2.0

// Command mutants applies seeded bugs to copies of the project, one at a time, and runs
// the tests that must find them. A bug is a patch in test/mutants with two lines
// before its diff:
//
//	description: the revision number of an unreferenced ConfigMap is reused
//	test: ./install/version -run TestNext
//
// The results are kept in _output/mutants until the project or the patch changes. The
// command writes a table and exits with 1 if a bug is not found.
package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"
)

func main() {
	o := options{}
	flag.StringVar(&o.patches, "patches", "test/mutants", "`folder` of the patches")
	flag.StringVar(&o.results, "results", "_output/mutants", "`folder` of earlier results")
	flag.StringVar(&o.table, "table", "test/mutants/found.txt", "`file` for the table")
	flag.IntVar(&o.parallel, "parallel", 2, "number of copies")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, o, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(1)
	}
}

type options struct {
	patches, results, table string
	parallel                int
}

// mutant is a seeded bug.
type mutant struct {
	name, description string
	test              []string // arguments of go test
	patch             string
	result            string // the test that finds it, or why it is not found
	found             bool
}

func run(ctx context.Context, o options, progress io.Writer) error {
	mutants, err := read(o.patches)
	if err != nil {
		return err
	}
	state, err := projectState(ctx)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(o.parallel)
	for i := range mutants {
		group.Go(func() error {
			m := &mutants[i]
			if err := m.tryCached(ctx, o.results, state); err != nil {
				return fmt.Errorf("%s: %w", m.name, err)
			}
			fmt.Fprintf(progress, "%-50s %s\n", m.name, m.result)
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := os.WriteFile(o.table, []byte(table(mutants)), 0o600); err != nil {
		return err
	}
	if survivors := len(mutants) - count(mutants); survivors > 0 {
		return fmt.Errorf("%d of %d mutants are not found", survivors, len(mutants))
	}
	return nil
}

// read reads the patches of a folder.
func read(folder string) ([]mutant, error) {
	paths, err := filepath.Glob(filepath.Join(folder, "*.patch"))
	if err != nil || len(paths) == 0 {
		return nil, errors.Join(err, fmt.Errorf("no patches in %s", folder))
	}
	var mutants []mutant
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		m, err := parse(string(content))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		m.name = strings.TrimSuffix(filepath.Base(path), ".patch")
		mutants = append(mutants, m)
	}
	return mutants, nil
}

var header = regexp.MustCompile(`\Adescription: (.+)\ntest: (.+)\n(?s:(.*))\z`)

func parse(content string) (mutant, error) {
	match := header.FindStringSubmatch(content)
	if match == nil {
		return mutant{}, errors.New("invalid header: want a description and a test")
	}
	return mutant{description: match[1], test: strings.Fields(match[2]), patch: match[3]}, nil
}

// projectState identifies the content of the project without untracked files.
func projectState(ctx context.Context) (string, error) {
	tree, err := output(ctx, ".", "git", "rev-parse", "HEAD^{tree}")
	if err != nil {
		return "", err
	}
	changes, err := output(ctx, ".", "git", "diff", "HEAD")
	return tree + changes, err
}

// tryCached tries a mutant, or returns the result of an earlier try.
func (m *mutant) tryCached(ctx context.Context, results, state string) error {
	key := sha256.Sum256([]byte(state + m.patch + strings.Join(m.test, " ")))
	file := filepath.Join(results, fmt.Sprintf("%x", key[:10]))
	if known, err := os.ReadFile(file); err == nil {
		m.found, m.result = true, string(known)
		return nil
	}
	if err := m.try(ctx); err != nil || !m.found {
		return err
	}
	return errors.Join(os.MkdirAll(results, 0o755), os.WriteFile(file, []byte(m.result), 0o600))
}

var failedTest = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try runs the test in a copy of the project with the bug.
func (m *mutant) try(ctx context.Context) error {
	dir, err := os.MkdirTemp("", "mutant-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if _, err := output(ctx, ".", "sh", "-c", `git ls-files -z | tar --null --files-from=- --create | tar --extract --directory="$0"`, dir); err != nil {
		return fmt.Errorf("copying the project: %w", err)
	}
	if err := m.apply(ctx, dir); err != nil {
		m.result = "not applied: " + err.Error()
		return nil
	}
	command := exec.CommandContext(ctx, "go", append([]string{"test", "-count=1", "-timeout=10m"}, m.test...)...)
	command.Dir = dir
	if at, found := strings.CutPrefix(m.test[0], "./third_party/boxcutter/"); found { // a module of its own
		command.Dir = filepath.Join(dir, "third_party", "boxcutter")
		command.Args[4] = "./" + at
	}
	out, err := command.CombinedOutput()
	switch failed := failedTest.FindAllStringSubmatch(string(out), -1); {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err == nil:
		m.result = "not found by go test " + strings.Join(m.test, " ")
	case failed == nil:
		m.result = "not compiled, or no test failed: " + lastLines(out)
	default:
		m.found, m.result = true, failed[0][1]
	}
	return nil
}

// apply applies the patch in a folder. One line of context is enough, so that a patch does
// not depend on the wording of comments.
func (m *mutant) apply(ctx context.Context, dir string, options ...string) error {
	command := exec.CommandContext(ctx, "git", append([]string{"apply", "-C1"}, options...)...)
	command.Dir, command.Stdin = dir, strings.NewReader(m.patch)
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, bytes.TrimSpace(out))
	}
	return nil
}

func lastLines(out []byte) string {
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// output runs a command and returns its standard output.
func output(ctx context.Context, dir, name string, arguments ...string) (string, error) {
	command := exec.CommandContext(ctx, name, arguments...)
	var stderr bytes.Buffer
	command.Dir, command.Stderr = dir, &stderr
	out, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, stderr.String())
	}
	return string(out), nil
}

func count(mutants []mutant) (found int) {
	for _, m := range mutants {
		if m.found {
			found++
		}
	}
	return found
}

// table returns the results, a line for each patch.
func table(mutants []mutant) string {
	var out strings.Builder
	fmt.Fprintf(&out, "Written by make mutants: the test that finds the bug of each patch. The tests find %d of %d.\n\n", count(mutants), len(mutants))
	for _, m := range mutants {
		result := "`" + m.result + "`"
		if !m.found {
			result = "not found: " + m.result
		}
		fmt.Fprintf(&out, "%s %s\n", m.name, result)
	}
	return out.String()
}
