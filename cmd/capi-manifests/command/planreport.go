// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/revision"
)

// planned is the data of plan.
type planned struct {
	ReleaseVersion string `json:"releaseVersion"`
	Platform       string `json:"platform"`
	// ContentID identifies all that is installed, as in the status of ClusterAPI.
	ContentID string            `json:"contentID"`
	Variables map[string]string `json:"variables,omitempty"`
	// Components are in install order.
	Components []plannedComponent `json:"components"`
	// Phases are in the order in which they are applied.
	Phases []plannedPhase `json:"phases"`
	// NotInstalled are the images, or parts of images, that the cluster does not get.
	NotInstalled []notInstalled `json:"notInstalled"`
}

type plannedComponent struct {
	Name      string `json:"name"`
	Type      string `json:"type"`
	Version   string `json:"version"`
	ContentID string `json:"contentID"`
	// Image is the payload reference, Key its name in images.json.
	Image   string `json:"image"`
	Key     string `json:"key"`
	Objects int    `json:"objects"`
}

type plannedPhase struct {
	Name    string         `json:"name"`
	Objects int            `json:"objects"`
	Kinds   map[string]int `json:"kinds"`
}

type notInstalled struct {
	Key      string `json:"key"`
	Image    string `json:"image"`
	Provider string `json:"provider,omitempty"`
	Reason   string `json:"reason"`
}

func newPlanned(release, platform string, set operand.Set, phases []revision.Phase, results []extractor.Result) planned {
	p := planned{
		ReleaseVersion: release, Platform: platform, ContentID: string(set.ContentID), Variables: set.Variables,
		Components: []plannedComponent{}, Phases: []plannedPhase{}, NotInstalled: notInstalledOf(platform, results),
	}
	for _, o := range set.Operands {
		p.Components = append(p.Components, plannedComponent{
			o.Name, string(o.Type), o.Version, string(o.ContentID), o.Origin.Image, o.Origin.Name, len(o.Objects),
		})
	}
	for _, phase := range phases {
		kinds := map[string]int{}
		for _, object := range phase.Objects {
			kinds[object.GetKind()]++
		}
		p.Phases = append(p.Phases, plannedPhase{phase.Name, len(phase.Objects), kinds})
	}
	return p
}

// notInstalledOf tells why images, or some of the bundles in them, are not selected.
func notInstalledOf(platform string, results []extractor.Result) []notInstalled {
	left := []notInstalled{}
	for _, result := range results {
		if len(result.Bundles) == 0 && result.Err == nil {
			left = append(left, notInstalled{Key: result.Image.Name, Image: result.Image.Reference, Reason: "holds no bundle"})
		}
		for _, bundle := range result.Bundles {
			if its := bundle.Metadata.OCPPlatform; its != "" && its != platform {
				left = append(left, notInstalled{result.Image.Name, result.Image.Reference, bundle.Metadata.ProviderName, "is for platform " + its})
			}
		}
	}
	return left
}

func (p planned) table(w *bytes.Buffer) {
	total := 0
	columns(w, []string{"COMPONENT", "TYPE", "VERSION", "OBJECTS", "CONTENT", "KEY", "IMAGE"}, rowsOf(p.Components, func(c plannedComponent) []string {
		total += c.Objects
		return []string{c.Name, c.Type, orNone(c.Version), strconv.Itoa(c.Objects), short(c.ContentID), c.Key, c.Image}
	}))
	columns(w, []string{"PHASE", "OBJECTS", "KINDS"}, rowsOf(p.Phases, func(phase plannedPhase) []string {
		return []string{phase.Name, strconv.Itoa(phase.Objects), kinds(phase.Kinds)}
	}))
	columns(w, []string{"NOT INSTALLED", "PROVIDER", "REASON"}, rowsOf(p.NotInstalled, func(left notInstalled) []string {
		return []string{left.Key, orNone(left.Provider), left.Reason}
	}))
	fmt.Fprintf(w, "\nRelease %s on %s: %d components, %d objects, content ID %s\n", p.ReleaseVersion, p.Platform, len(p.Components), total, p.ContentID)
}

// kinds says how many objects there are of which kind: "2 ClusterRole, 1 Deployment".
func kinds(counts map[string]int) string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%d %s", counts[kind], kind))
	}
	return strings.Join(parts, ", ")
}

// short is as much of a digest as tells two apart.
func short(digest string) string {
	_, hex, _ := strings.Cut(digest, ":")
	return hex[:min(12, len(hex))]
}

// writeObjects writes the objects of all phases in their order: YAML documents, or a List in JSON.
func writeObjects(w io.Writer, format output, phases []revision.Phase) error {
	var objects []*unstructured.Unstructured
	for _, phase := range phases {
		objects = append(objects, phase.Objects...)
	}
	if format == asJSON {
		return format.write(w, map[string]any{"apiVersion": "v1", "kind": "List", "items": objects}, nil)
	}
	var out bytes.Buffer
	for _, object := range objects {
		encoded, err := json.Marshal(object.Object)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		document, err := yaml.JSONToYAML(encoded)
		if err != nil {
			return fmt.Errorf("writing %s %s: %w", object.GetKind(), object.GetName(), err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	_, err := w.Write(out.Bytes())
	return err
}
