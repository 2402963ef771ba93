// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/fsnotify/fsnotify"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// WatchFile is a source that has the controller run when a file changes. It
// watches the file's directory, because a mounted ConfigMap changes by a symbolic
// link beside the file.
func WatchFile(path string) (source.Source, error) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watching %s: %w", path, err)
	}
	if err := watcher.Add(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("watching the directory of %s: %w", path, err)
	}
	return source.Func(func(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		go forward(ctx, watcher, queue)
		return nil
	}), nil
}

// forward adds a request for each change until ctx ends.
func forward(ctx context.Context, watcher *fsnotify.Watcher, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
	defer watcher.Close()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-watcher.Events:
			if !open {
				return
			}
			enqueue(queue)
		case _, open := <-watcher.Errors: // changes may have been lost
			if !open {
				return
			}
			enqueue(queue)
		}
	}
}
