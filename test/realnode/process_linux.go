// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Process is the first process of a container, as the kernel sees it.
type Process struct {
	// PID is its ID in the namespaces of the run.
	PID int
	// Status has the first value of each field of /proc/PID/status, such as "Uid".
	Status map[string]string
	// MemoryLimit and MemoryPeak describe the container's cgroup, in bytes.
	MemoryLimit, MemoryPeak int64
}

// processFolder is the folder in the folder of a run with the images and the containers of a node with processes.
const processFolder = "process"

// Process returns the process of a container, whose ID is as in a pod's status. On a node with processes, only PID is set.
func (n *Node) Process(container string) (Process, error) {
	_, id, _ := strings.Cut(container, "://")
	if n.kind == Processes {
		text, err := os.ReadFile(filepath.Join(n.path(processFolder), "containers", id+".pid"))
		if err != nil {
			return Process{}, err
		}
		pid, err := strconv.Atoi(string(text))
		return Process{PID: pid}, err
	}
	cgroup, err := n.findCgroup(id)
	if err != nil {
		return Process{}, err
	}
	processes, err := os.ReadFile(filepath.Join(cgroup, processesFile))
	if err != nil {
		return Process{}, err
	}
	first, _, _ := strings.Cut(string(processes), "\n")
	p := Process{Status: map[string]string{}}
	if p.PID, err = strconv.Atoi(first); err != nil {
		return p, fmt.Errorf("container %s has no process: %w", id, err)
	}
	status, err := os.ReadFile(filepath.Join("/proc", first, "status"))
	if err != nil {
		return p, err
	}
	for line := range strings.Lines(string(status)) {
		if name, values, found := strings.Cut(line, ":"); found {
			if fields := strings.Fields(values); len(fields) > 0 {
				p.Status[name] = fields[0]
			}
		}
	}
	p.MemoryLimit = readNumber(cgroup, "memory.max", "memory.limit_in_bytes")
	p.MemoryPeak = readNumber(cgroup, "memory.peak", "memory.max_usage_in_bytes")
	return p, nil
}

// Kill ends the process without notice.
func (p Process) Kill() error { return syscall.Kill(p.PID, syscall.SIGKILL) }

// findCgroup returns the cgroup of a container in the hierarchy with the memory controller.
func (n *Node) findCgroup(id string) (string, error) {
	found := ""
	for _, root := range cgroupHierarchies() {
		if filepath.Base(root) != "memory" && root != cgroupRoot {
			continue
		}
		err := filepath.WalkDir(filepath.Join(root, n.cgroup()), func(path string, entry fs.DirEntry, err error) error {
			if err == nil && entry.IsDir() && entry.Name() == id {
				found = path
				return fs.SkipAll
			}
			if errors.Is(err, fs.ErrNotExist) { // another container has ended
				return nil
			}
			return err
		})
		if err != nil {
			return "", err
		}
	}
	if found == "" {
		return "", fmt.Errorf("container %s has no cgroup", id)
	}
	return found, nil
}

// readNumber reads the first existing file of a cgroup; zero if there is none, or no limit.
func readNumber(cgroup string, names ...string) int64 {
	for _, name := range names {
		if content, err := os.ReadFile(filepath.Join(cgroup, name)); err == nil {
			number, _ := strconv.ParseInt(strings.TrimSpace(string(content)), 10, 64)
			return number
		}
	}
	return 0
}
