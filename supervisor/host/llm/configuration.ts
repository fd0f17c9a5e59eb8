/** Reads the operator's model configuration from a JSON file at start-up. Its API keys stay in this process. */
import { z } from 'zod';
import { refuseHidden } from '../../../sdk/contract/manifest.ts';
import {
  baseAddress,
  type Environment,
  readEnvironmentFile,
  SettingsError,
} from '../../../service/settings/settings.ts';
import { readSettingsFile } from '../../../service/settings/settings-file.ts';

/** The full name `provider/model` must be a valid id of the protocol. */
const MODEL_ID_MAX_CHARS = 150;
const MODELS_MAX = 200;
/** Fetch refuses a header with another key at each call. It removes white space around a key. */
const SENDABLE_KEY = /^[\x20-\x7e]+$/;
const price = z.strictObject({
  /** Per million tokens, in the operator's currency. */
  inputPerMillion: z.number().min(0),
  outputPerMillion: z.number().min(0),
});
const visibleLine = (maxChars: number) => z.string().min(1).max(maxChars).superRefine(refuseHidden('line'));
const modelId = visibleLine(MODEL_ID_MAX_CHARS);
const configuredModel = z.union([
  modelId.transform((id) => ({ id, name: id, contextWindow: undefined, price: undefined })),
  z
    .strictObject({
      id: modelId,
      name: visibleLine(200).optional(),
      contextWindow: z.number().int().positive().optional(),
      price: price.optional(),
    })
    .transform((model) => ({ ...model, name: model.name ?? model.id })),
]);
const provider = z
  .strictObject({
    name: z.string().regex(/^[a-z][a-z0-9-]{0,31}$/, 'must be 1-32 small letters, digits or -, starting with a letter'),
    kind: z.enum(['openai', 'anthropic']),
    baseUrl: baseAddress,
    apiKey: z.string().min(1).optional(),
    // A key in its place would appear in the message that no such variable is set.
    apiKeyEnv: z
      .string()
      .regex(/^[A-Za-z_][A-Za-z0-9_]*$/, 'must be the name of an environment variable, such as MODELS_KEY')
      .optional(),
    /** Whether an `openai` endpoint supports `response_format` with `json_schema`. */
    structuredOutputs: z.boolean().default(true),
    /** The field of the request in which an `openai` endpoint accepts `maxTokens`. Default: see `chooseMaxTokensField`. */
    maxTokensField: z.enum(['max_tokens', 'max_completion_tokens']).optional(),
    models: z
      .array(configuredModel)
      .min(1)
      .max(MODELS_MAX)
      .superRefine((models, { addIssue }) => {
        const ids = models.map(({ id }) => id);
        const again = ids.findIndex((id, index) => ids.indexOf(id) !== index);
        if (again >= 0)
          addIssue({ code: 'custom', path: [again], message: 'has the id of an earlier model; remove one of them' });
      }),
  })
  .refine(({ apiKey, apiKeyEnv }) => apiKey === undefined || apiKeyEnv === undefined, {
    error: 'has both apiKey and apiKeyEnv; give one',
  });
const file = z.array(provider).max(50);

export type ModelProvider = Omit<z.output<typeof provider>, 'apiKeyEnv'>;
export type ConfiguredModel = ModelProvider['models'][number];

/**
 * Reads the file that `MODELS_FILE` names; without it, there are no models.
 *
 * @param env variables that `apiKeyEnv` may name
 * @param readEnvFile those of `.env`: this process has them from `npm start`, except one that was added since together with its endpoint
 * @throws SettingsError that names the fault without values of the file, which may be keys
 */
export async function readModels(
  path: string | undefined,
  env: Environment,
  readEnvFile: () => Environment = readEnvironmentFile,
): Promise<readonly ModelProvider[]> {
  if (path === undefined) return [];
  const providers = await readSettingsFile('MODELS_FILE', path, file);
  const names = providers.map(({ name }) => name);
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (twice !== undefined) throw new SettingsError(`MODELS_FILE: two providers are called ${twice}.`);
  const found = providers.map(({ apiKeyEnv, ...rest }) => {
    if (apiKeyEnv === undefined) return rest;
    const apiKey = env[apiKeyEnv] || readEnvFile()[apiKeyEnv];
    if (!apiKey)
      throw new SettingsError(
        `MODELS_FILE: ${rest.name} wants the variable ${apiKeyEnv}, which is not set. Set it in the environment or in .env.`,
      );
    return { ...rest, apiKey };
  });
  const unsendable = found.find(({ apiKey }) => apiKey !== undefined && !SENDABLE_KEY.test(apiKey.trim()));
  if (unsendable)
    throw new SettingsError(
      `MODELS_FILE: the key of ${unsendable.name} holds a line break or a character that is not ASCII. Copy it again.`,
    );
  return found;
}
