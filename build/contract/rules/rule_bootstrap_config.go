// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// bootstrapConfigRules are the rules of the theme "bootstrap-config".
var bootstrapConfigRules = []contract.Rule{{
	ID:       "bootstrap-config/present",
	Severity: contract.Error,
	Source:   forBootstrapConfig("Rules (contract version v1beta2)"),
	Why:      "A Machine refers to an object that creates its bootstrap data. A bootstrap provider without such a kind has no function.",
	Fix:      "Add the CRD, such as ExampleConfig in bootstrap.cluster.x-k8s.io; correct providerType if this is not a bootstrap provider.",
	Check:    needs(bootstrapType, contract.BootstrapConfig),
}, {
	ID:       "bootstrap-config/data-secret-name",
	Severity: contract.Error,
	Source:   forBootstrapConfig("BootstrapConfig: data secret"),
	Why:      "Cluster API reads the bootstrap data from the Secret in this field. Without it, no host is created.",
	Fix:      "Add the string status.dataSecretName.",
	Check:    aBootstrapConfig.requireTyped("status.dataSecretName", contract.TypeString),
}, {
	ID:       "bootstrap-config/template",
	Severity: contract.Error,
	Source:   forBootstrapConfig("BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition"),
	Why:      "MachineSets and MachineDeployments create the configuration of each machine from a template.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    oneHasTemplate(contract.BootstrapConfig),
}, {
	ID:       "bootstrap-config/template-each",
	Severity: contract.Warning,
	Source:   forBootstrapConfig("BootstrapConfigTemplate, BootstrapConfigTemplateList resource definition"),
	Why:      "Without a template, users can only create single Machines with this kind.",
	Fix:      "Add the CRD <kind>Template to the same group.",
	Check:    othersHaveTemplate(contract.BootstrapConfig),
},
	aBootstrapConfig.conditionsRule("bootstrap-config/conditions", forBootstrapConfig("BootstrapConfig: conditions"), "Machine"),
	aBootstrapConfig.failureTypesRule("bootstrap-config/failure-fields-type", forBootstrapConfig("BootstrapConfig: terminal failures")),
	oldBootstrapConfig.readyRule("bootstrap-config/status-ready", forBootstrapConfig("BootstrapConfig: initialization completed"), "Machine"),
	newBootstrapConfig.initializationRule("bootstrap-config/initialization", forBootstrapConfig("BootstrapConfig: initialization completed"), "Machine", "status.initialization.dataSecretCreated"),
}

var (
	aBootstrapConfig   = subject{role: contract.BootstrapConfig}
	oldBootstrapConfig = subject{contract.BootstrapConfig, "v1beta1"}
	newBootstrapConfig = subject{contract.BootstrapConfig, "v1beta2"}
)
