// SPDX-License-Identifier: Apache-2.0

package contract

// hygieneRules are OpenShift's conventions for the workloads of the platform.
var hygieneRules = []Rule{{
	ID:       "installer/deployment-priority-class",
	Severity: Warning,
	Only:     FormBundle,
	Source:   openShift("Priority Classes"),
	Why:      "A pod of the platform without a priority class is the first that a full node evicts.",
	Fix:      "Set priorityClassName to system-cluster-critical.",
	Check: eachPod(func(spec Value) []Finding {
		class := spec.At("priorityClassName")
		if class.Text() != "" {
			return nil
		}
		return []Finding{class.finding("the pod has no priority class")}
	}),
}, {
	ID:       "installer/deployment-required-scc",
	Severity: Warning,
	Only:     FormBundle,
	Source:   manifestsGen("Deployments"),
	Why:      "Without it a pod is admitted under the first security context constraints that fit, which an administrator's own may be.",
	Fix:      "Annotate the pod template with openshift.io/required-scc: restricted-v2, or the constraints that it needs.",
	Check:    podAnnotation("openshift.io/required-scc"),
}, {
	ID:       "installer/deployment-workload-annotation",
	Severity: Warning,
	Only:     FormBundle,
	Source:   manifestsGen("Deployments"),
	Why:      "Where CPUs are set apart for the platform, pods without it run on those of users' workloads.",
	Fix:      `Annotate the pod template with target.workload.openshift.io/management: '{"effect": "PreferredDuringScheduling"}'.`,
	Check:    podAnnotation("target.workload.openshift.io/management"),
}, {
	ID:       "installer/container-resources",
	Severity: Warning,
	Only:     FormBundle,
	Source:   openShift("Resources and Limits"),
	Why:      "The scheduler places pods by their requests. Limits throttle or kill a controller just when a cluster is large and needs it.",
	Fix:      "Request cpu and memory, and set no limits; the transform \"resource-requests\" of \"capi-manifests generate\" does it.",
	Check:    eachContainer(checkResources),
}, {
	ID:       "installer/container-termination-message",
	Severity: Warning,
	Only:     FormBundle,
	Source:   manifestsGen("Deployments"),
	Why:      "With FallbackToLogsOnError the last lines of the log are in the pod's status, where must-gather and administrators see why it ended.",
	Fix:      "Set terminationMessagePolicy to FallbackToLogsOnError.",
	Check:    eachContainer(checkTerminationMessage),
}, {
	ID:       "installer/container-pull-policy",
	Severity: Warning,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "Images are named by digest. With Always a node asks the registry before every start, and does not start without it.",
	Fix:      "Set imagePullPolicy to IfNotPresent.",
	Check:    eachContainer(checkPullPolicy),
}}

func podAnnotation(name string) func(*Bundle) []Finding {
	return eachObject(func(o *Object) []Finding {
		path, makesPods := podSpecs[o.Kind]
		if !makesPods {
			return nil
		}
		template := o.At(path[:len(path)-1]...)
		if annotation := template.At("metadata", "annotations", name); !annotation.Exists() {
			return []Finding{annotation.finding("the pod template has no annotation %s", name)}
		}
		return nil
	})
}

func checkResources(container Value) (findings []Finding) {
	for _, resource := range []string{"cpu", "memory"} {
		if request := container.At("resources", "requests", resource); request.Text() == "" {
			findings = append(findings, request.finding("%s requests no %s", nameOf(container), resource))
		}
	}
	if limits := container.At("resources", "limits"); limits.Exists() {
		findings = append(findings, limits.finding("%s has limits", nameOf(container)))
	}
	return findings
}

func checkTerminationMessage(container Value) []Finding {
	policy := container.At("terminationMessagePolicy")
	switch text := policy.Text(); text {
	case "FallbackToLogsOnError":
		return nil
	case "":
		return []Finding{policy.finding("%s has no terminationMessagePolicy", nameOf(container))}
	default:
		return []Finding{policy.finding("%s ends with a message by %s", nameOf(container), text)}
	}
}

// checkPullPolicy takes a missing policy for what it means with a digest: IfNotPresent.
func checkPullPolicy(container Value) []Finding {
	policy := container.At("imagePullPolicy")
	if text := policy.Text(); text != "" && text != "IfNotPresent" {
		return []Finding{policy.finding("%s pulls its image by %s", nameOf(container), text)}
	}
	return nil
}
