// SPDX-License-Identifier: Apache-2.0

// Package history is the record of the versions that were installed, in ConfigMap
// capi-installer-history: it outlives the revision ConfigMaps of the versions. A record follows from the status and the former
// record, so a lost write is repeated by the next reconcile.
package history

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// ConfigMapName is the name of the ConfigMap in the installer's namespace.
const ConfigMapName = "capi-installer-history"

// The limits of the record: of the API server's 1 MiB, most stays free.
const (
	maxEntries = 20
	maxBytes   = 512 << 10
)

// suffix ends the keys of entries.
const suffix = ".json"

// Result tells how the installation of a version ended.
type Result string

// The results.
const (
	// Installing is a version whose rollout is in progress.
	Installing Result = "Installing"
	// Blocked is a version whose rollout needs an administrator.
	Blocked Result = "Blocked"
	// Installed is a version that was completely installed.
	Installed Result = "Installed"
	// Replaced is a version that another one replaced before it was installed.
	Replaced Result = "Replaced"
)

// Entry is a version that was, or is, the desired one.
type Entry struct {
	// Version is its name, such as 4.22.0-3.
	Version string `json:"version"`
	// Revision is its number. Entries are sorted by it.
	Revision int64 `json:"revision"`
	// Release is the release of its images.json.
	Release string `json:"release,omitempty"`
	// Started is the time when the version became the desired one.
	Started metav1.Time `json:"started"`
	// Ended is the time when it was installed or replaced; zero before.
	Ended  metav1.Time `json:"ended,omitzero"`
	Result Result      `json:"result"`
	// Reason is the reason of the condition that blocked the version last; empty if there was none.
	Reason string `json:"reason,omitempty"`
	// Components are the components, in install order.
	Components []v1alpha1.Component `json:"components"`
	// UnmanagedCRDs are the unmanaged CRDs.
	UnmanagedCRDs []string `json:"unmanagedCRDs,omitempty"`
	// ImagesJSON is the text of images.json; empty if it is not known.
	ImagesJSON string `json:"imagesJSON,omitempty"`
}

// Observation is the input of an update of the record.
type Observation struct {
	Status v1alpha1.ClusterAPIStatus
	// Started is the creation time of the desired version; zero if it is not known.
	Started metav1.Time
	// Release and ImagesJSON are the inputs of the desired version; empty if they are not known.
	Release, ImagesJSON string
	Now                 metav1.Time
}

// Record returns the entries, oldest first, after an observation. It changes none of its arguments.
func Record(entries []Entry, seen Observation) []Entry {
	updated := slices.Clone(entries)
	desired := seen.Status.Version(seen.Status.DesiredVersion)
	if desired == nil {
		return updated
	}
	for i := range updated {
		if updated[i].Version != desired.Name && updated[i].Ended.IsZero() {
			updated[i].Result, updated[i].Ended = Replaced, seen.Now
		}
	}
	at := slices.IndexFunc(updated, func(e Entry) bool { return e.Version == desired.Name })
	if at < 0 {
		updated = append(updated, Entry{
			Version: desired.Name, Revision: desired.Revision, Release: seen.Release, ImagesJSON: seen.ImagesJSON, Result: Installing,
			Started: seen.Started, Components: desired.Components, UnmanagedCRDs: desired.UnmanagedCRDs,
		})
		at = len(updated) - 1
		if seen.Started.IsZero() {
			updated[at].Started = seen.Now
		}
	}
	entry := &updated[at]
	switch blocked := blockedBy(seen.Status.Conditions); {
	case !entry.Ended.IsZero():
	case seen.Status.Settled():
		entry.Result, entry.Ended = Installed, seen.Now
	case blocked != "":
		entry.Result, entry.Reason = Blocked, blocked
	default:
		entry.Result = Installing
	}
	sortEntries(updated)
	return bounded(updated)
}

// blockedBy returns the reason of the condition that blocks a rollout; empty if none does.
func blockedBy(conditions []metav1.Condition) string {
	for _, name := range []string{"InstallerDegraded", "VersionDegraded"} {
		if condition := meta.FindStatusCondition(conditions, name); condition != nil && condition.Status == metav1.ConditionTrue {
			return condition.Reason
		}
	}
	return ""
}

// bounded drops the oldest entries until the limits are met. The entry of the version that was installed last stays: it is
// the way back.
func bounded(entries []Entry) []Entry {
	for len(entries) > 1 && (len(entries) > maxEntries || size(entries) > maxBytes) {
		oldest := 0
		if entries[0].Result == Installed && !slices.ContainsFunc(entries[1:len(entries)-1], wasInstalled) {
			oldest = 1
		}
		entries = slices.Delete(entries, oldest, oldest+1)
	}
	return entries
}

func wasInstalled(entry Entry) bool { return entry.Result == Installed }

func size(entries []Entry) (bytes int) {
	for _, text := range Data(entries) {
		bytes += len(text)
	}
	return bytes
}

func sortEntries(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Revision, b.Revision) })
}

// Data returns the data of the ConfigMap: one key for each entry.
func Data(entries []Entry) map[string]string {
	data := map[string]string{}
	for _, entry := range entries {
		encoded, _ := json.Marshal(entry) // texts, numbers and times can be encoded
		data[entry.Version+suffix] = string(encoded)
	}
	return data
}

// Parse returns the entries in the ConfigMap, oldest first; nothing for nil. Keys with invalid content are skipped: another actor
// has written them, and the next write removes them.
func Parse(configMap *corev1.ConfigMap) (entries []Entry) {
	if configMap == nil {
		return nil
	}
	for key, text := range configMap.Data {
		var entry Entry
		if json.Unmarshal([]byte(text), &entry) == nil && entry.Version != "" && key == entry.Version+suffix {
			entries = append(entries, entry)
		}
	}
	sortEntries(entries)
	return entries
}

// Ended reports whether the entry of a version is complete, so that nothing is left to record.
func Ended(configMap *corev1.ConfigMap, version string) bool {
	var entry Entry
	return json.Unmarshal([]byte(configMap.Data[version+suffix]), &entry) == nil && !entry.Ended.IsZero()
}

// Changes lists the differences between two versions in words, one for each component.
func Changes(before, after Entry) (changes []string) {
	for _, component := range after.Components {
		old, found := componentOf(before, component.Name, component.Profile)
		switch {
		case !found:
			changes = append(changes, strings.TrimSpace("added "+component.Name+" "+component.Version))
		case old.Version != component.Version:
			changes = append(changes, fmt.Sprintf("%s %s -> %s", component.Name, cmp.Or(old.Version, "none"), cmp.Or(component.Version, "none")))
		case old.ContentID != component.ContentID:
			changes = append(changes, component.Name+" manifests")
		case old.Image != component.Image || !slices.Equal(old.ConfigMaps, component.ConfigMaps):
			changes = append(changes, component.Name+" image")
		}
		if component.Overridden && !old.Overridden {
			changes = append(changes, component.Name+" is overridden")
		}
		changes = append(changes, settingsChanged(old, component)...)
	}
	for _, component := range before.Components {
		if _, found := componentOf(after, component.Name, component.Profile); !found {
			changes = append(changes, "removed "+component.Name)
		}
	}
	if !slices.Equal(before.UnmanagedCRDs, after.UnmanagedCRDs) {
		changes = append(changes, "unmanaged CRDs")
	}
	return changes
}

// settingsChanged lists the settings that only one of both components has. Their values are not recorded.
func settingsChanged(before, after v1alpha1.Component) (changes []string) {
	for _, name := range after.Settings {
		if !slices.Contains(before.Settings, name) {
			changes = append(changes, after.Name+" sets "+name)
		}
	}
	for _, name := range before.Settings {
		if !slices.Contains(after.Settings, name) {
			changes = append(changes, after.Name+" no longer sets "+name)
		}
	}
	return changes
}

func componentOf(entry Entry, name, profile string) (v1alpha1.Component, bool) {
	at := slices.IndexFunc(entry.Components, func(c v1alpha1.Component) bool { return c.Name == name && c.Profile == profile })
	if at < 0 {
		return v1alpha1.Component{}, false
	}
	return entry.Components[at], true
}
