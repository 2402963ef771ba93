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
var packages = map[string]string{"runc": "runc", "nft": "nftables", "ip": "iproute2"}

// Missing names the privileges and the programs that this machine lacks to run a node; nil means none.
func Missing() error {
	var missing []error
	if os.Geteuid() != 0 {
		missing = append(missing, errors.New("not root: a node makes namespaces, mounts and cgroups"))
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
