// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"bufio"
	"os"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resmap"
)

// warnings are the lines that kustomize has written to standard error in this process.
var warnings = struct {
	sync.Mutex
	written map[string]bool
}{written: map[string]bool{}}

// run runs kustomize. Kustomize writes a deprecation warning to os.Stderr for each file that it reads, whenever it reads
// it, and knows no other writer. run writes each distinct line once per process: os.Stderr is a pipe meanwhile, so one
// directory is rendered at a time.
func run(files *textFiles, dir string) (resmap.ResMap, error) {
	warnings.Lock()
	defer warnings.Unlock()
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	stderr, copied := os.Stderr, make(chan struct{})
	go func() {
		defer close(copied)
		copyDistinct(stderr, reader)
	}()
	os.Stderr = writer
	defer func() {
		os.Stderr = stderr
		_ = writer.Close()
		<-copied
	}()
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, dir)
	if err := files.explain(err); err != nil {
		return nil, err
	}
	return resources, nil
}

// copyDistinct copies the lines that were not written before, and closes the reader at its end.
func copyDistinct(to, from *os.File) {
	defer from.Close()
	for lines, err := bufio.NewReader(from), error(nil); err == nil; {
		var line string
		if line, err = lines.ReadString('\n'); !warnings.written[line] {
			warnings.written[line] = true
			_, _ = to.WriteString(line)
		}
	}
}
