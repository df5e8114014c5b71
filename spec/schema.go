package spec

import "landfall.dev/landfall"

// shape is what a field may hold.
type shape uint8

const (
	anything shape = iota // not checked
	text                  // any scalar, as it was written
	number                // a whole number
	boolean
	object  // known fields
	mapping // free keys, values of one shape
	list    // items of one shape
)

// field describes one field of a document. A field that is null counts as absent.
type field struct {
	shape  shape
	fields fields // of an object
	item   *field // of a list or mapping
	unused bool   // it is kept, and the author is told that it has no effect
}

// fields are the known names.
type fields map[string]field

// kind is a kind of document.
type kind struct {
	apiVersion string
	document   field // the whole document
	read       func(d *document, o Object, spec map[string]any, n nodes)
}

// These are the two languages.
const (
	fissionVersion = "fission.io/v1"
	ourVersion     = "landfall.dev/v1"
)

// These are the names of kinds that are used in more than one place.
const (
	appKind         = "App"
	functionKind    = "Function"
	packageKind     = "Package"
	environmentKind = "Environment"
	httpKind        = "HTTPTrigger"
	timeKind        = "TimeTrigger"
	queueKind       = "MessageQueueTrigger"
	canaryKind      = "CanaryConfig"
	archiveKind     = "ArchiveUploadSpec"
	deploymentKind  = "DeploymentConfig"
	aliasKind       = "Alias"
	tagKind         = "FunctionTag"
)

// kinds returns every kind by its name. The field names of fission.io/v1 are those of Fission 1.x, including those of
// older releases.
func kinds() map[string]kind {
	return map[string]kind{
		appKind:         {ourVersion, ofObject(false, appFields()), readApp},
		functionKind:    {fissionVersion, ofObject(true, functionFields()), readFunction},
		packageKind:     {fissionVersion, ofObject(true, packageFields()), readPackage},
		environmentKind: {fissionVersion, ofObject(true, environmentFields()), readEnvironment},
		httpKind:        {fissionVersion, ofObject(true, httpFields()), readTrigger(landfall.HTTPTrigger, httpKind)},
		timeKind:        {fissionVersion, ofObject(true, timeFields()), readTrigger(landfall.TimeTrigger, timeKind)},
		queueKind:       {fissionVersion, ofObject(true, queueFields()), readTrigger(landfall.QueueTrigger, queueKind)},
		canaryKind:      {fissionVersion, ofObject(true, canaryFields()), readCanary},
		aliasKind:       {ourVersion, ofObject(false, aliasFields()), readAlias},
		tagKind:         {ourVersion, ofObject(false, functionTagFields()), readFunctionTag},
		archiveKind:     {fissionVersion, archiveDocument(), nil},
		deploymentKind:  {fissionVersion, field{}, nil},
	}
}

// ofObject describes a document with metadata.
func ofObject(fission bool, spec fields) field {
	metadata := fields{
		"name": {shape: text}, "namespace": {shape: text}, "labels": {shape: mapping, item: &field{}},
		"annotations": {shape: mapping, item: &field{}},
	}
	document := fields{
		"apiVersion": {shape: text}, "kind": {shape: text},
		"metadata": {shape: object, fields: metadata},
		"spec":     {shape: object, fields: spec},
	}
	if fission { // fields that Fission's own tools leave in a file
		for _, known := range []string{
			"creationTimestamp", "uid", "resourceVersion", "generation", "selfLink", "generateName", "managedFields",
			"finalizers", "ownerReferences", "deletionTimestamp", "deletionGracePeriodSeconds",
		} {
			metadata[known] = field{}
		}
		document["status"] = field{}
	}
	return field{shape: object, fields: document}
}

func archiveDocument() field {
	return field{shape: object, fields: fields{
		"apiVersion": {shape: text}, "kind": {shape: text}, "name": {shape: text}, "rootdir": {shape: text},
		"include": texts(), "exclude": texts(),
	}}
}

// texts describes a list of text.
func texts() field { return field{shape: list, item: &field{shape: text}} }

// objectReference describes a reference to another object, with more fields if there are any.
func objectReference(more ...string) field {
	known := fields{"name": {shape: text}, "namespace": {shape: text}}
	for _, m := range more {
		known[m] = field{shape: text}
	}
	return field{shape: object, fields: known}
}

// unused marks fields of Fission that have no effect here. Their values are kept and not checked.
func (f fields) unused(names ...string) fields {
	for _, n := range names {
		f[n] = field{unused: true}
	}
	return f
}

func functionFields() fields {
	return fields{
		"environment": objectReference(),
		"package": {shape: object, fields: fields{
			"packageref":   objectReference("resourceversion"),
			"functionName": {shape: text},
		}},
		"secrets":         {shape: list, item: &field{shape: object, fields: objectReference().fields.unused("mountPath")}},
		"configmaps":      {shape: list, item: &field{shape: object, fields: objectReference().fields.unused("mountPath")}},
		"resources":       {},
		"functionTimeout": {shape: number}, "idletimeout": {shape: number},
		"concurrency": {shape: number}, keepWarm: {shape: number}, external: {shape: boolean}, streamBody: {shape: boolean},
		maxBody: {shape: text}, "retries": {shape: number},
		"requestsPerPod": {shape: number}, "onceOnly": {shape: boolean},
		"contract": contractField(),
	}.unused("InvokeStrategy", "env", "envFrom", "podspec", "retainPods", "streaming", "tool", "state",
		"invocation", "provisionedConcurrency", "versioning")
}

func packageFields() fields {
	archive := field{shape: object, fields: fields{
		"type": {shape: text}, "literal": {shape: text}, "url": {shape: text},
		"checksum": {shape: object, fields: fields{"type": {shape: text}, "sum": {shape: text}}},
	}.unused("oci")}
	return fields{"environment": objectReference(), "source": archive, "deployment": archive, "buildcmd": {shape: text}}
}

func environmentFields() fields {
	image := func(more fields) field {
		more["image"] = field{shape: text}
		return field{shape: object, fields: more.unused("podspec")}
	}
	container := field{shape: object, fields: fields{
		"env": {shape: list, item: &field{shape: object,
			fields: fields{"name": {shape: text}, "value": {shape: text}}.unused("valueFrom")}},
	}.unused("name", "image", "command", "args", "workingDir", "ports", "envFrom", "resources", "resizePolicy",
		"restartPolicy", "volumeMounts", "volumeDevices", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle",
		"terminationMessagePath", "terminationMessagePolicy", "imagePullPolicy", "securityContext", "stdin",
		"stdinOnce", "tty")}
	return fields{
		"version": {shape: number},
		"runtime": image(fields{"container": container, "programs": {shape: text}}.unused("loadendpointport",
			"loadendpointpath", "functionendpointport")),
		"builder":   image(fields{"command": {shape: text}}.unused("container")),
		"resources": {}, "terminationGracePeriod": {shape: number}, external: {shape: boolean},
		"imagepullsecret": {shape: text},
	}.unused("allowedFunctionsPerContainer", "poolsize", "keeparchive", "documentationurl")
}

// functionRef describes the function of a trigger. Fission has both "version" and "alias"; here both are the selector.
func functionRef() field {
	return field{shape: object, fields: fields{
		"type": {shape: text}, "name": {shape: text}, "version": {shape: text}, "alias": {shape: text},
		"functionweights": {shape: mapping, item: &field{shape: number}},
	}}
}

// ofTriggers adds the fields of every trigger. All except functionref are ours: what the function gets, and which
// events it may take.
func (f fields) ofTriggers() fields {
	f["functionref"] = functionRef()
	f["config"] = field{shape: mapping, item: &field{shape: text}}
	f["filters"], f["resources"] = filters(), field{}
	f["functionTimeout"], f["idletimeout"], f["concurrency"] = field{shape: number}, field{shape: number},
		field{shape: number}
	return f
}

func httpFields() fields {
	return fields{
		"host": {shape: text}, "relativeurl": {shape: text}, "prefix": {shape: text}, "keepPrefix": {shape: boolean},
		"method": {shape: text}, "methods": texts(), "access": {shape: text}, "sticky": {shape: text},
		"retries": {shape: number},
	}.ofTriggers().unused("createingress", "ingressconfig", "routeConfig", "corsConfig", "invocationMode")
}

func timeFields() fields {
	return fields{
		"cron": {shape: text}, "timeZone": {shape: text}, "method": {shape: text}, "subpath": {shape: text},
		"retries": {shape: number},
	}.ofTriggers()
}

func queueFields() fields {
	return fields{
		"messageQueueType": {shape: text}, "topic": {shape: text}, "respTopic": {shape: text}, "errorTopic": {shape: text},
		"maxRetries": {shape: number}, "contentType": {shape: text},
	}.ofTriggers().unused("pollingInterval", "cooldownPeriod", "minReplicaCount", "maxReplicaCount", "metadata", "secret",
		"mqtkind", "podspec")
}

// filters describes a list of filters of the CloudEvents Subscriptions API, which may contain filters.
func filters() field {
	known := fields{}
	one := field{shape: object, fields: known}
	some, attributes := field{shape: list, item: &one}, field{shape: mapping, item: &field{shape: text}}
	known["exact"], known["prefix"], known["suffix"] = attributes, attributes, attributes
	known["all"], known["any"], known["not"] = some, some, one
	return some
}

func canaryFields() fields {
	return fields{
		"trigger": {shape: text}, "newfunction": {shape: text}, "oldfunction": {shape: text},
		"weightincrement": {shape: number}, "duration": {shape: text}, "failurethreshold": {shape: number},
		"failureType": {shape: text},
	}
}

func appFields() fields {
	return fields{
		"config": {shape: mapping, item: &field{}},
		"build": {shape: object, fields: fields{
			"command": {shape: text}, "environment": {shape: text}, "inputs": texts(), "outputs": texts(),
			"env": {shape: mapping, item: &field{shape: text}},
		}},
		"static": {shape: list, item: &field{shape: object, fields: fields{
			"src": {shape: text}, "path": {shape: text}, "fallback": {shape: text}, "exclude": texts(),
		}}},
		"release": {shape: object, fields: fields{
			"production": {shape: text}, "live": {shape: text}, "keep": {shape: number}, "branches": texts(),
			"skip_paths": texts(), "keep_files": {shape: text},
		}},
	}
}
