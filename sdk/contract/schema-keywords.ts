/** The keywords of JSON Schema 2020-12, by what the host does with them. Other keywords are annotations and check nothing. */

/** Keywords that decide which values fit, alone or together with others. */
export const checkedKeywords: ReadonlySet<string> = new Set([
  ...['$schema', '$id', '$ref', '$anchor', '$dynamicRef', '$dynamicAnchor', '$defs', 'definitions'],
  ...['allOf', 'anyOf', 'oneOf', 'not', 'if', 'then', 'else'],
  ...['type', 'enum', 'const', 'nullable'],
  ...['properties', 'patternProperties', 'additionalProperties', 'unevaluatedProperties', 'propertyNames', 'required'],
  ...['minProperties', 'maxProperties', 'dependentRequired', 'dependentSchemas', 'dependencies'],
  ...['items', 'prefixItems', 'unevaluatedItems', 'contains', 'minContains', 'maxContains'],
  ...['minItems', 'maxItems', 'uniqueItems'],
  ...['minLength', 'maxLength', 'pattern'],
  ...['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'],
]);

/** Known keywords that only describe, of JSON Schema and of OpenAPI. */
export const describingKeywords: ReadonlySet<string> = new Set([
  ...['title', 'description', '$comment', 'default', 'examples', 'deprecated', 'readOnly', 'writeOnly', '$vocabulary'],
  ...['format', 'contentEncoding', 'contentMediaType', 'contentSchema'],
  ...['example', 'externalDocs', 'discriminator', 'xml'],
]);
