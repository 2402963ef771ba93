// SPDX-License-Identifier: Apache-2.0

package journey

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"
)

// backup saves the Cluster with clusterctl move.
func (j *Journey) backup(ctx context.Context) error {
	folder := j.path("backup")
	if err := os.MkdirAll(folder, 0o700); err != nil { // clusterctl does not make it
		return err
	}
	if _, err := j.program(ctx, clusterctlFile, "move", "--to-directory", folder, "--namespace", clusterNamespace); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		return err
	}
	if len(files) < machineCount {
		return fmt.Errorf("clusterctl move saved %d objects, want at least %d Machines", len(files), machineCount)
	}
	j.Report("clusterctl move saved %d objects", len(files))
	return j.nothingLost(ctx)
}

// reinstall uninstalls with the commands of docs/uninstall.md while the Machines exist, and installs again.
func (j *Journey) reinstall(ctx context.Context) error {
	if _, err := j.kubectl(ctx, "delete", "clusterapi", "cluster", "--timeout=10m"); err != nil {
		return err
	}
	if _, err := j.kubectl(ctx, "delete", "-k", j.path(kustomizationFolder), "--selector=app.kubernetes.io/component!=namespace"); err != nil {
		return err
	}
	if manager, err := j.manager(ctx); err == nil {
		return fmt.Errorf("Deployment %s exists after the uninstallation", manager.Name) //nolint:staticcheck // a kind
	}
	now, err := j.count(ctx)
	if err != nil {
		return err
	}
	if err := j.lost(now); err != nil {
		return err
	}
	j.Report("uninstalled: no manager runs, and %d objects of Cluster API still exist", len(now))
	began := time.Now()
	if err := j.applyOperator(ctx); err != nil {
		return err
	}
	j.Report("installed again after %.0f s", time.Since(began).Seconds())
	return j.nothingLost(ctx)
}
