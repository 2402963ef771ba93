// SPDX-License-Identifier: Apache-2.0

package install_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// converter is a conversion webhook of machines, behind Service webhook. It changes apiVersion.
type converter struct {
	ca []byte
	// fault changes its answers; nil answers correctly.
	fault atomic.Pointer[func(w http.ResponseWriter, objects []map[string]any) (handled bool)]
}

// converts starts a conversion webhook.
func (h *harness) converts() *converter {
	h.Helper()
	c := &converter{}
	server, ca, err := fixture.StartConverter(h.Cluster, func(w http.ResponseWriter, objects []map[string]any) bool {
		fault := c.fault.Load()
		return fault != nil && (*fault)(w, objects)
	})
	h.must(err)
	h.Cleanup(server.Close)
	c.ca = ca
	return c
}

// manifests returns the manifests of converted, with the CA of the webhook.
func (c *converter) manifests() []string {
	all := converted()
	all[0] = strings.Replace(all[0], "path: /convert}", "path: /convert}, caBundle: "+base64.StdEncoding.EncodeToString(c.ca), 1)
	return all
}

// fails makes the webhook answer with a fault; empty ends it.
func (c *converter) fails(name string) {
	fault := conversionFaults[name]
	if name == "" {
		c.fault.Store(nil)
		return
	}
	c.fault.Store(&fault)
}

// conversionFaults are wrong answers of a conversion webhook.
var conversionFaults = map[string]func(w http.ResponseWriter, objects []map[string]any) bool{
	"no answer": func(w http.ResponseWriter, _ []map[string]any) bool {
		panic(http.ErrAbortHandler)
	},
	"status 500": func(w http.ResponseWriter, _ []map[string]any) bool {
		http.Error(w, "the manager is starting", http.StatusInternalServerError)
		return true
	},
	"another version": func(_ http.ResponseWriter, objects []map[string]any) bool {
		objects[0]["apiVersion"] = "infrastructure.cluster.x-k8s.io/v1alpha1"
		return false
	},
	"another name": func(_ http.ResponseWriter, objects []map[string]any) bool {
		object.MapAt(objects[0], "metadata")["name"] = "other"
		return false
	},
}

// While an instance cannot be read through the conversion webhook, the storage version does not switch, and the version is not complete, although
// all pods are ready. The condition names the CRD, the version and the webhook.
func TestConversion_HoldsTheSwitch(t *testing.T) {
	h := newInstallation(t, core(), awsWith(crd("machines", "Machine"), deployment("capa", placeholder)))
	webhook, number := h.converts(), 1
	check := h.instances("v1beta1", 2)
	for name := range conversionFaults {
		t.Run(name, func(t *testing.T) {
			defer h.reportTo(t)()
			webhook.fails(name)
			h.release(core(), awsWith(append(webhook.manifests(), generation("capa", number))...))
			number++
			h.reports("InstallerDegraded", "InstancesUnreadable", machines, "version v1beta2", "Service "+namespace+"/webhook", "capi-manifests rollback")
			cluster := h.clusterAPI().Status
			if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1"}) || cluster.CurrentVersion == cluster.DesiredVersion {
				t.Errorf("stored versions are %v; version %s is complete", stored, cluster.CurrentVersion)
			}
			h.release(core(), awsWith(crd("machines", "Machine"), generation("capa", number)))
			number++
			h.settled(fmt.Sprint("4.22.0-", number))
			check("v1beta1")
		})
	}
	webhook.fails("")
	h.release(core(), awsWith(append(webhook.manifests(), generation("capa", number))...))
	h.settled(fmt.Sprint("4.22.0-", number+1))
	if stored := h.storedVersions(); !slices.Equal(stored, []string{"v1beta1", "v1beta2"}) {
		t.Errorf("stored versions are %v", stored)
	}
	check("v1beta2")
}

// A version whose storage version does not change is not complete either while instances in another version cannot be read.
func TestConversion_CompletesWhenReadable(t *testing.T) {
	h := newHarness(t)
	webhook := h.converts()
	h.release(core(), awsWith(append(webhook.manifests(), deployment("capa", placeholder))...))
	h.start("4.22.0")
	h.settled("4.22.0-1")
	h.instances("v1beta1", 1)
	webhook.fails("no answer")
	h.release(core(), awsWith(append(webhook.manifests(), generation("capa", 1))...))
	h.reports("InstallerDegraded", "InstancesUnreadable", "version 4.22.0-2 is not complete", machines, "version v1beta1")
	webhook.fails("")
	h.settled("4.22.0-2")
}

// generation is the manifest of a Deployment with another pod template for each number.
func generation(name string, number int) string {
	return fixture.Deployment(name, placeholder, fmt.Sprint(number))
}
