/** The JSON Schema of the Helm chart's values, which lists every setting by name. */
import { apiSettings } from '../../service/settings/api-settings.ts';
import { sharedSettings } from '../../service/settings/settings.ts';
import { supervisorSettings } from '../../service/settings/supervisor-settings.ts';

/** The chart sets these itself, from its values, ports and volumes. */
const OF_THE_CHART = new Set([
  ...['DATA_DIR', 'DATABASE_URL', 'HOST', 'PORT', 'SUPERVISOR_PORT', 'OPS_HOST', 'API_OPS_PORT', 'SUPERVISOR_OPS_PORT'],
  ...['PUBLIC_URL', 'SUPERVISOR_URL', 'WEBHOOK_URL', 'TRUST_PROXY', 'DATABASE_SESSION_URL', 'PEER_HOST', 'PEER_PORT'],
  ...['BLOBS', 'AWS_ENDPOINT_URL', 'AWS_REGION', 'AWS_ACCESS_KEY_ID', 'AWS_SECRET_ACCESS_KEY'],
  ...['CLUSTER_KEY', 'CLUSTER_KEY_FILE', 'CLUSTER_KEY_COMMAND'],
]);

/**
 * The shortest `terminationGracePeriodSeconds` of a pod: the preStop pause of 5 s and HANDOVER_TIMEOUT_MS, rounded up. Kubernetes
 * would kill a pod with less while its calls end. Seconds.
 */
const GRACE_PERIOD_MIN_S = 65;

type Schema = Readonly<Record<string, unknown>>;
const text: Schema = { type: 'string' };
const flag: Schema = { type: 'boolean' };
const address: Schema = { type: 'string', pattern: '^https?://[^\\s]+$' };
const addressOrNone: Schema = { type: 'string', pattern: '^(https?://[^\\s]+)?$' };
const anything: Schema = { type: 'object' };
const list: Schema = { type: 'array' };
const labels: Schema = { type: 'object', additionalProperties: text };
const enumSchema = (...words: string[]): Schema => ({ enum: words });
const closedObject = (properties: Readonly<Record<string, Schema>>, ...required: string[]): Schema => ({
  type: 'object',
  additionalProperties: false,
  properties,
  ...(required.length > 0 ? { required } : {}),
});

function createSettingsSchema(shape: object): Schema {
  const names = Object.keys(shape).filter((name) => !OF_THE_CHART.has(name));
  const value = { type: ['string', 'integer', 'boolean'] };
  // The standard variables of OpenTelemetry.
  const patternProperties = { '^OTEL_[A-Z_]+$': value };
  return { ...closedObject(Object.fromEntries(names.map((name) => [name, value]))), patternProperties };
}

const createProcessSchema = (shape: object, more: Readonly<Record<string, Schema>> = {}): Schema =>
  closedObject({
    // None while a backup is restored.
    replicas: { type: 'integer', minimum: 0 },
    settings: createSettingsSchema(shape),
    resources: anything,
    nodeSelector: labels,
    tolerations: list,
    podAnnotations: labels,
    terminationGracePeriodSeconds: { type: 'integer', minimum: GRACE_PERIOD_MIN_S },
    autoscaling: closedObject({
      enabled: flag,
      minReplicas: { type: 'integer', minimum: 1 },
      maxReplicas: { type: 'integer', minimum: 1 },
      targets: labels,
    }),
    ...more,
  });

/** JSON Schema draft 7, the version that Helm supports. */
export function valuesSchema(): Schema {
  const switched = { enabled: flag, labels };
  const properties = {
    image: closedObject({ repository: { type: 'string', minLength: 1 }, tag: text, pullPolicy: text }, 'repository'),
    imagePullSecrets: list,
    publicUrl: address,
    webhookUrl: addressOrNone,
    supervisorUrl: address,
    trustProxy: text,
    database: closedObject({
      url: { type: 'string', pattern: '^(postgres(ql)?://.+)?$' },
      existingSecret: text,
      existingSecretKey: text,
      sessionUrl: { type: 'string', pattern: '^(postgres(ql)?://.+)?$' },
      existingSecretSessionKey: text,
      caSecret: text,
    }),
    blobs: closedObject({
      store: { type: 'string', pattern: '^(files|database|s3://.+)$' },
      s3: closedObject({ endpoint: addressOrNone, region: text, existingSecret: text }),
    }),
    clusterKey: closedObject({ existingSecret: text, existingSecretKey: text, command: text }),
    settings: createSettingsSchema(sharedSettings),
    storage: closedObject({
      size: text,
      className: text,
      existingClaim: text,
      accessMode: enumSchema('ReadWriteMany', 'ReadWriteOnce'),
    }),
    keys: closedObject({ existingSecret: text }),
    api: createProcessSchema(apiSettings, { spoolSize: text }),
    supervisor: createProcessSchema(supervisorSettings, {
      sandbox: enumSchema('userNamespaces', 'gvisor'),
      runtimeClassName: text,
      filesSecret: text,
      workspacesClaim: text,
    }),
    networkPolicy: closedObject({ enabled: flag, clientsFrom: list, metricsFrom: list }),
    migration: closedObject({ resources: anything }),
    ingress: closedObject({
      enabled: flag,
      className: text,
      annotations: labels,
      host: text,
      sessionHost: text,
      tls: list,
    }),
    monitoring: closedObject({
      serviceMonitor: closedObject({ ...switched, interval: text }),
      prometheusRule: closedObject(switched),
      dashboard: closedObject(switched),
    }),
    // Helm's own.
    global: anything,
  };
  return { $schema: 'http://json-schema.org/draft-07/schema#', ...closedObject(properties) };
}

/** The text of `deploy/helm/bulkhead/values.schema.json`. */
export const helmValuesSchema = (): string => `${JSON.stringify(valuesSchema(), null, 2)}\n`;
