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
	Only:     contract.FormBundle,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "A CRD that the API server does not establish is not served: objects of its kind cannot be created, and the installer waits for it.",
	Fix:      "Correct the problem in the message. If names are not accepted, another CRD of the group has them.",
}, {
	ID:       contract.RuleObjectAccepted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The installer checks the objects of a phase by a dry run. If the API server rejects one, it writes none of them.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RulePodAdmitted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Only:     contract.FormBundle,
	Source:   kubernetes("Pod Security Admission", "concepts/security/pod-security-admission/"),
	Why:      "The API server accepts a Deployment without checking its pods. If it rejects the pods, none is ever created, and the installation does not complete.",
	Fix:      "Correct the problem in the message. A rejection in the strict namespace is a warning: only the embedded API server has that namespace, and the installer uses it only with manifests/components/restricted. Fields that SCC restricted-v2 sets are not required there; that is a model of OpenShift's admission and was not verified on an OpenShift cluster.",
}, {
	ID:       contract.RuleTemplateAccepted,
	Checker:  contract.CheckerServer,
	Severity: contract.Error,
	Only:     contract.FormRelease,
	Source:   clusterctl("Workload cluster templates"),
	Why:      "An API server with the CRDs of Cluster API and the webhooks of its core provider rejects the object of a template or of a ClusterClass. Variables without a default have values that fit the schema; a rejection because of such a value is only an info of server/not-checked.",
	Fix:      "Correct the problem in the message.",
}, {
	ID:       contract.RuleNotChecked,
	Checker:  contract.CheckerServer,
	Severity: contract.Info,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The API server could not check the object: it does not serve the kind, the namespace is missing, the user lacks a permission, or the object depends on a variable without a default.",
	Fix:      "No change is needed. To check the object, use the kubeconfig of a cluster with the provider.",
}}
