// SPDX-License-Identifier: Apache-2.0

package administer

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/opencontainers/go-digest"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/install/history"
)

// Target returns the entry to roll back to: a version or a release by its name, or else the version that was installed last with
// other inputs than those that are requested now. entries are sorted, oldest first.
func Target(entries []history.Entry, name string, requested rollout.RequestedRelease) (history.Entry, error) {
	var names []string
	for _, entry := range slices.Backward(entries) {
		switch {
		case name != "" && name != entry.Version && name != entry.Release:
		case name == "" && (entry.Result != history.Installed || isRequested(entry, requested)):
		case entry.ImagesJSON == "":
			return history.Entry{}, fmt.Errorf("the history has no images.json of version %s: it was installed by an installer that did not record it; apply its images.json yourself", entry.Version)
		case isRequested(entry, requested):
			return history.Entry{}, fmt.Errorf("version %s has the images.json and the release-version that are requested now", entry.Version)
		default:
			return entry, nil
		}
		names = append(names, entry.Version)
	}
	if name != "" {
		return history.Entry{}, fmt.Errorf("version %s is not in the history, which has %s", name, strings.Join(names, ", "))
	}
	return history.Entry{}, errors.New("the history has no other installed version")
}

// isRequested reports whether a version was made from the requested files.
func isRequested(entry history.Entry, requested rollout.RequestedRelease) bool {
	return digest.FromString(entry.ImagesJSON).String() == string(requested.ImagesDigest) && (requested.Version == "" || requested.Version == entry.Release)
}

// Rollback returns the patches that request the inputs of a version: of the ConfigMap with images.json, and, because the program
// reads release-version at its start, of the pods of the installer.
func Rollback(to history.Entry, requested rollout.RequestedRelease, now time.Time) []Patch {
	namespace, name, _ := strings.Cut(requested.ConfigMap, "/")
	data := map[string]any{rollout.ImagesKey: to.ImagesJSON}
	patches := []Patch{{Resource: corev1.SchemeGroupVersion.WithResource("configmaps"), Namespace: namespace, Name: name, Body: map[string]any{"data": data}}}
	if requested.Version == "" || requested.Version == to.Release {
		return patches
	}
	data[rollout.VersionKey] = to.Release
	restarted := map[string]any{"kubectl.kubernetes.io/restartedAt": now.UTC().Format(time.RFC3339)}
	return append(patches, Patch{
		Resource: appsv1.SchemeGroupVersion.WithResource("deployments"), Namespace: namespace, Name: rollout.InstallerName,
		Body: map[string]any{"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": restarted}}}},
	})
}
