// SPDX-License-Identifier: Apache-2.0

package contract

var (
	aBootstrapConfig   = subject{role: bootstrapConfig}
	oldBootstrapConfig = subject{bootstrapConfig, "v1beta1"}
	newBootstrapConfig = subject{bootstrapConfig, "v1beta2"}
)

// bootstrapRules are the contract of the kinds that make the data with which a host becomes a node.
var bootstrapRules = []Rule{{
	ID:       "bootstrap-config/present",
	Severity: Error,
	Source:   forBootstrapConfig("Rules (contract version v1beta2)"),
	Why:      "A Machine refers to an object that makes its bootstrap data. A bootstrap provider without a kind for it does nothing.",
	Fix:      "Add the CRD, such as ExampleConfig in bootstrap.cluster.x-k8s.io; correct providerType if this is no bootstrap provider.",
	Check:    needs(bootstrapType, bootstrapConfig),
}, {
	ID:       "bootstrap-config/data-secret-name",
	Severity: Error,
	Source:   forBootstrapConfig("BootstrapConfig: data secret"),
	Why:      "Cluster API takes the bootstrap data from the Secret that is named here. Without it no host is made.",
	Fix:      "Add the string status.dataSecretName.",
	Check:    aBootstrapConfig.must("status.dataSecretName", aString),
}, {
	ID:       "bootstrap-config/status-ready",
	Severity: Error,
	Source:   forBootstrapConfig("BootstrapConfig: initialization completed"),
	Why:      "Under the contract v1beta1 the Machine waits until status.ready is true.",
	Fix:      "Add the boolean status.ready, or keep the contract v1beta2.",
	Check:    oldBootstrapConfig.must("status.ready", aBoolean),
}, {
	ID:       "bootstrap-config/initialization",
	Severity: Error,
	Source:   forBootstrapConfig("BootstrapConfig: initialization completed"),
	Why:      "Under the contract v1beta2 the Machine waits until status.initialization.dataSecretCreated is true; status.ready is not read.",
	Fix:      "Add the boolean status.initialization.dataSecretCreated.",
	Check:    newBootstrapConfig.must("status.initialization.dataSecretCreated", aBoolean),
}, {
	ID:       "bootstrap-config/conditions",
	Severity: Warning,
	Source:   forBootstrapConfig("BootstrapConfig: conditions"),
	Why:      "Conditions tell people, and the Machine that sums them up, why something is not ready.",
	Fix:      "Add status.conditions, a list of metav1.Condition.",
	Check:    aBootstrapConfig.should("status.conditions"),
}, {
	ID:       "bootstrap-config/failure-fields-type",
	Severity: Error,
	Source:   forBootstrapConfig("BootstrapConfig: terminal failures"),
	Why:      "Cluster API reads these fields as strings, and fails at anything else.",
	Fix:      "Make them strings, or remove them.",
	Check:    aBootstrapConfig.shape("status.failureReason", aString, "status.failureMessage", aString),
}, {
	ID:       "bootstrap-config/template",
	Severity: Error,
	Source:   forBootstrapConfig("BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition"),
	Why:      "MachineSets and MachineDeployments make the configuration of each machine from a template.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    oneHasTemplate(bootstrapConfig),
}, {
	ID:       "bootstrap-config/template-each",
	Severity: Warning,
	Source:   forBootstrapConfig("BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition"),
	Why:      "Machines with a kind without template can be made one by one only.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check: func(b *Bundle) []Finding {
		if len(oneHasTemplate(bootstrapConfig)(b)) > 0 {
			return nil // another rule
		}
		return hasTemplate(bootstrapConfig)(b)
	},
}}
