// SPDX-License-Identifier: Apache-2.0

// Command original compares this module with the original boxcutter: with the version that go.mod names, and with a newer
// one. It compares the exported names, and runs the conformance suite, and the tests of the installer, with the original. The
// original comes from the module proxy, or from a git clone outside of the project. It is built in a copy of the project that
// does not have this module.
//
// Each test that fails must be in the list of differences, and each row of the list must fail.
//
//	original [-clone folder] [-only conformance]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

const module = "pkg.package-operator.run/boxcutter"

// parallel lets the tests with a control plane, which mostly wait, run as in make test.
const parallel = "-parallel=4"

// suite is a set of tests in a folder of the project.
type suite struct {
	name, folder string
	arguments    []string
}

var suites = []suite{
	{"conformance", "third_party/boxcutter/conformance", []string{"-timeout=30m", "-run=TestConformance", "."}},
	{"install", ".", []string{"-timeout=60m", parallel, "./install/..."}},
	{"e2e", ".", []string{"-timeout=90m", parallel, "./test/e2e"}},
}

func main() {
	clone := flag.String("clone", "", "a git clone of the original; default: the module proxy")
	only := flag.String("only", "", "the only suite to run: "+strings.Join(suiteNames(), ", "))
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *clone, *only); err != nil {
		fmt.Fprintln(os.Stderr, "original:", err)
		os.Exit(1) //nolint:gocritic // the context is of no use after this
	}
}

func run(ctx context.Context, clone, only string) error {
	if known := suiteNames(); only != "" && !slices.Contains(known, only) {
		return fmt.Errorf("unknown suite %q: choose one of %s", only, strings.Join(known, ", "))
	}
	project, err := filepath.Abs("../..")
	if err != nil {
		return err
	}
	rows, err := readDifferences("original/differences.md")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "original-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	versions, err := originals(ctx, project, clone, dir)
	if err != nil {
		return err
	}
	var failed error
	for _, version := range versions {
		if only == "" || only == "api" {
			failed = errors.Join(failed, version.checkAPI(ctx))
		}
		copied := filepath.Join(dir, "project-"+version.name)
		if err := version.copyProject(ctx, project, copied); err != nil {
			return err
		}
		for _, suite := range suites {
			if only == "" || only == suite.name {
				failed = errors.Join(failed, suite.check(ctx, copied, version.name, rows))
			}
		}
	}
	return failed
}

// suiteNames returns the names that -only selects.
func suiteNames() []string {
	names := []string{"api"}
	for _, suite := range suites {
		names = append(names, suite.name)
	}
	return names
}

// checkAPI compares the exported names of this module with the original's, and with the list of additions.
func (o original) checkAPI(ctx context.Context) error {
	fmt.Printf("== API of boxcutter %s\n", o.name)
	folder := o.folder
	if folder == "" {
		var err error
		if folder, err = downloaded(ctx, o.version); err != nil {
			return err
		}
	}
	ours, err := exportedNames(".")
	if err != nil {
		return err
	}
	theirs, err := exportedNames(folder)
	if err != nil {
		return err
	}
	additions, err := readAdditions("original/additions.md")
	if err != nil {
		return err
	}
	if err := compareAPI(ours, theirs, additions); err != nil {
		return fmt.Errorf("API of boxcutter %s:\n%w", o.name, err)
	}
	fmt.Printf("   %d names are the same, %d are additional\n", len(theirs), len(additions))
	return nil
}

// check runs a suite, and compares its failures with the differences that are expected of a version.
func (s suite) check(ctx context.Context, project, version string, rows []difference) error {
	fmt.Printf("== %s with boxcutter %s\n", s.name, version)
	result, err := s.run(ctx, filepath.Join(project, s.folder))
	if err != nil {
		return fmt.Errorf("%s with %s: %w", s.name, version, err)
	}
	expected := slices.DeleteFunc(slices.Clone(rows), func(d difference) bool { return d.suite != s.name || !d.in(version) })
	problems := compare(result, expected)
	fmt.Printf("   %d passed, %d failed, %d of them expected\n", len(result.passed), len(result.failed), len(result.failed)-unexpected(problems))
	if len(problems) > 0 { // printed at once: further suites can take an hour
		fmt.Println(strings.Join(problems, "\n"))
		return fmt.Errorf("%s with %s: %d problems, see above", s.name, version, len(problems))
	}
	return nil
}
