// SPDX-License-Identifier: Apache-2.0

package contract

// serverRules are the rules of the theme "server".
var serverRules = []Rule{{
	ID:       crdEstablished,
	Checker:  CheckerServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Create a CustomResourceDefinition", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "A CRD that the API server does not establish is not served: objects of its kind cannot be created, and the installer waits for it.",
	Fix:      "Correct the CRD as the message says. Names that are not accepted are those of another CRD of the group.",
}, {
	ID:       objectAccepted,
	Checker:  CheckerServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "The installer writes nothing of a phase in which the API server refuses an object.",
	Fix:      "Correct the object as the message says.",
}, {
	ID:       policyCompiles,
	Checker:  CheckerServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Validating Admission Policy", "reference/access-authn-authz/validating-admission-policy/"),
	Why:      "An admission policy whose expressions the API server cannot compile is refused.",
	Fix:      "Correct the CEL expression as the message says.",
}, {
	ID:       podAdmitted,
	Checker:  CheckerServer,
	Severity: Error,
	Only:     FormBundle,
	Source:   kubernetes("Pod Security Admission", "concepts/security/pod-security-admission/"),
	Why:      "The API server takes a Deployment whatever its pods are like. If it refuses the pods, the Deployment never has any, and the installer waits for it in vain.",
	Fix:      "Correct the pod template as the message says. The embedded API server has the stricter namespace of manifests/components/restricted, which takes restricted pods only; the default namespace of the manifests takes all. Fields that SCC restricted-v2 fills in are not missed. That is a model of OpenShift's admission and was not verified on an OpenShift cluster.",
}, {
	ID:       minimalAccepted,
	Checker:  CheckerServer,
	Severity: Warning,
	Only:     FormBundle,
	Source:   kubernetes("Validation", "tasks/extend-kubernetes/custom-resources/custom-resource-definitions/"),
	Why:      "The API server rejects an object with only the required fields, so the schema does not describe a valid object.",
	Fix:      "Correct contradictions in the schema: required fields, defaults, enums, patterns and limits.",
}, {
	ID:       notChecked,
	Checker:  CheckerServer,
	Severity: Info,
	Only:     FormBundle,
	Source:   kubernetes("Dry-run", "reference/using-api/api-concepts/"),
	Why:      "This API server could not be asked: it lacks a kind, a namespace or a permission, or the request is unknown.",
	Fix:      "Nothing; or ask one that can tell, such as a cluster on which the provider is installed.",
}}
