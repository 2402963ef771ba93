// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"golang.org/x/sys/unix"
)

// Kind is a kind of node.
type Kind string

const (
	// Containers is a node with containerd: it needs root and the programs of a few Debian packages.
	Containers Kind = "containers"
	// Processes is a node whose containers are processes: it needs nothing but namespaces, also without root.
	Processes Kind = "processes"
)

// KindEnv is the environment variable that names the kind of the node. Without it, the run has the first kind that this machine can run.
const KindEnv = "REALNODE_KIND"

// Choose returns the kind of the node of this run; an error names everything that this machine lacks.
func Choose() (Kind, error) {
	switch kind := Kind(os.Getenv(KindEnv)); {
	case os.Getenv(stageEnv) != "": // in the namespaces, the choice was made outside
		return kind, nil
	case kind == Containers:
		return kind, missingContainers()
	case kind == Processes:
		return kind, missingProcesses()
	case kind != "":
		return "", fmt.Errorf("invalid %s=%s: want %s or %s", KindEnv, kind, Containers, Processes)
	}
	containers := missingContainers()
	if containers == nil {
		return Containers, nil
	}
	processes := missingProcesses()
	if processes == nil {
		return Processes, nil
	}
	return "", fmt.Errorf("a node with containers needs:\n%w\na node with processes needs:\n%w", containers, processes)
}

// Why returns what this machine lacks for the first kind of node; nil if it lacks nothing.
func Why() error { return missingContainers() }

// settings are the kernel's parameters that decide whether users may make namespaces, and the values that allow it. A kernel
// need not have all.
var settings = map[string]string{
	"user.max_user_namespaces":                     "more than the number of namespaces in use",
	"kernel.unprivileged_userns_clone":             "1",
	"kernel.apparmor_restrict_unprivileged_userns": "0",
}

// missingProcesses names the privileges that this machine lacks to run a node with processes; nil means none.
func missingProcesses() error {
	command := exec.Command("/proc/self/exe")
	command.Env = append(os.Environ(), stageEnv+"="+probeStage)
	command.SysProcAttr = namespaces()
	output, err := command.CombinedOutput()
	if err == nil {
		return nil
	}
	missing := []error{fmt.Errorf("namespaces for network, mounts and processes: %w %s", err, strings.TrimSpace(string(output)))}
	if os.Geteuid() == 0 {
		return errors.Join(append(missing, errors.New("root lacks the capability CAP_SYS_ADMIN here: allow it, for example in the container"))...)
	}
	for name, want := range settings {
		if value, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(name, ".", "/")); err == nil && strings.TrimSpace(string(value)) != want {
			missing = append(missing, fmt.Errorf("users may not make namespaces: sysctl %s is %s, want %s", name, strings.TrimSpace(string(value)), want))
		}
	}
	return errors.Join(append(missing, errors.New("or run it as root"))...)
}

// probe uses the rights that a run needs in its namespaces.
func probe() int {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		fmt.Fprintln(os.Stderr, "mounting:", err)
		return 1
	}
	return 0
}
