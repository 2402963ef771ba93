// SPDX-License-Identifier: Apache-2.0

package realnode

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// packages are the programs that Go cannot build, and their Debian packages.
var packages = map[string]string{"runc": "runc", "nft": "nftables"}

// missingContainers names the privileges and the programs that this machine lacks to run a node with containers; nil means none.
func missingContainers() error {
	var missing []error
	if os.Geteuid() != 0 || inUserNamespace() {
		missing = append(missing, errors.New("not root of the machine: a node makes namespaces, mounts and cgroups"))
	}
	var install []string
	for program, debian := range packages {
		if _, err := lookPath(program); err != nil {
			install = append(install, debian)
		}
	}
	if len(install) > 0 {
		missing = append(missing, fmt.Errorf("programs not found: run apt-get install --yes --no-install-recommends %s", strings.Join(install, " ")))
	}
	if len(cgroupHierarchies()) == 0 {
		missing = append(missing, fmt.Errorf("no cgroup hierarchy is mounted below %s", cgroupRoot))
	}
	return errors.Join(missing...)
}

// inUserNamespace reports whether this process has users of a part of the machine.
func inUserNamespace() bool {
	users, err := os.ReadFile("/proc/self/uid_map")
	return err == nil && strings.Join(strings.Fields(string(users)), " ") != "0 0 4294967295"
}

// lookPath finds a program, also in the folders for administrators.
func lookPath(program string) (string, error) {
	path, err := exec.LookPath(program)
	for _, folder := range []string{"/usr/local/sbin", "/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		path, err = exec.LookPath(filepath.Join(folder, program))
	}
	return path, err
}
