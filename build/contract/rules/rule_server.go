// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// serverRules are the rules of the theme "server".
var serverRules = []contract.Rule{{
	ID:       contract.RuleCRDEstablished,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server rejects the CRD in a dry run. It is not established then: objects of its kind cannot be created. A dry run does not find names that another CRD of the group has.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleObjectAccepted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The API server rejects the object in a dry run. The installer sends the same dry run before it writes any object of a phase. clusterctl fails at the object.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RulePodAdmitted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Source:   kubernetes("Pod Security Admission", "concepts/security/pod-security-admission/"),
	Why:      "The API server accepts a Deployment without checking its pods. If it rejects the pods, none is ever created, and the installation does not complete.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleTemplateAccepted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "The API server, or a webhook of Cluster API in the cluster, rejects the object of a template or of a ClusterClass. Variables without a default have values that fit the schema; a rejection because of such a value is only an info of server/not-checked.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleNotChecked,
	Checker:  contract.CheckerServer,
	Severity: contract.Info,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The API server could not check the object: it does not serve the kind, the namespace is missing, the user lacks a permission, or the object depends on a variable without a default.",
	Fix:      "No change is needed. To check the object, use the kubeconfig of a cluster with the provider.",
}}
