// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

const (
	cgroupRoot = "/sys/fs/cgroup"
	// runPrefix begins the name of the folder and of the cgroup of a run.
	runPrefix = "realnode-"
	// initCgroup has all processes of a run but not the ones of pods.
	initCgroup    = "init"
	processesFile = "cgroup.procs"
)

// cgroupHierarchies returns the roots of the mounted hierarchies: one for each controller, or the unified one.
func cgroupHierarchies() []string {
	if _, err := os.Stat(filepath.Join(cgroupRoot, "cgroup.controllers")); err == nil {
		return []string{cgroupRoot}
	}
	roots, _ := filepath.Glob(filepath.Join(cgroupRoot, "*", "cgroup.procs"))
	for i := range roots {
		roots[i] = filepath.Dir(roots[i])
	}
	return roots
}

// makeCgroup creates the cgroup of a run in all hierarchies and moves this process into its child "init"; kubelet creates
// the cgroups of pods in it.
func makeCgroup(name string) error {
	for _, root := range cgroupHierarchies() {
		// In version 2 the parent decides which controllers a cgroup has; missing ones make kubelet fail.
		for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
			_ = os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+controller), 0)
		}
		run := filepath.Join(root, name)
		if err := errors.Join(makeChild(root, run), makeChild(run, filepath.Join(run, initCgroup))); err != nil {
			return fmt.Errorf("making a cgroup: %w", err)
		}
		if err := os.WriteFile(filepath.Join(run, initCgroup, processesFile), []byte(strconv.Itoa(os.Getpid())), 0); err != nil {
			return fmt.Errorf("entering a cgroup: %w", err)
		}
	}
	return nil
}

// makeChild creates a cgroup in its parent. In version 1, it begins without CPUs and memory.
func makeChild(parent, path string) error {
	if err := os.Mkdir(path, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	if _, err := os.Stat(filepath.Join(path, "cgroup.controllers")); err == nil {
		return nil
	}
	for _, file := range []string{"cpuset.cpus", "cpuset.mems"} {
		if content, err := os.ReadFile(filepath.Join(parent, file)); err == nil {
			if err := os.WriteFile(filepath.Join(path, file), content, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// removeCgroups removes the cgroups of runs that have ended.
func removeCgroups() {
	for _, root := range cgroupHierarchies() {
		runs, _ := filepath.Glob(filepath.Join(root, runPrefix+"*"))
		for _, run := range runs {
			if processes, err := os.ReadFile(filepath.Join(run, initCgroup, processesFile)); err == nil && len(processes) == 0 {
				_ = removeCgroup(run)
			}
		}
	}
}

// removeCgroup removes a cgroup and those below it.
func removeCgroup(path string) error {
	var folders []string
	err := filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	for _, folder := range slices.Backward(folders) {
		err = errors.Join(err, os.Remove(folder))
	}
	return err
}
