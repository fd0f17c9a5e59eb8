/** The representations of a manifest's settings and secrets and of capabilities. */
import { z } from 'zod';
import { canCancel, describeCapability } from '../../sdk/contract/capabilities.ts';
import { listFields, type Manifest } from '../../sdk/contract/manifest.ts';

const field = z.strictObject({
  name: z.string(),
  label: z.string(),
  description: z.string().nullable(),
  required: z.boolean(),
});
const secretField = field.extend({
  use: z
    .array(z.string())
    .nullable()
    .describe('How the host uses the secret for the plugin, which never sees its value. Null: the plugin reads it.'),
});
const settingField = field.extend({ default: z.string().nullable(), enum: z.array(z.string()).nullable() });

export const configurationFields = z
  .strictObject({ settings: z.array(settingField), secrets: z.array(secretField) })
  .meta({
    id: 'ConfigurationFields',
    description: 'The settings and secrets that the frontmatter names.',
  });

export const reachRow = z.strictObject({
  capability: z.string(),
  sentence: z.string(),
  risk: z.enum(['low', 'medium', 'high']),
  cancels: z.boolean().describe('Whether it is a hook that can cancel an operation.'),
});

/** @param manifest null: the plugin has no version yet */
export function showFields(manifest: Manifest | null): z.output<typeof configurationFields> {
  const common = (name: string, row: { label?: string | undefined; description?: string | undefined }) => ({
    name,
    label: row.label ?? name,
    description: row.description ?? null,
  });
  return {
    settings: listFields(manifest?.settings ?? {}).map(([name, row]) => ({
      ...common(name, row),
      required: row.required,
      default: row.default ?? null,
      enum: row.enum ?? null,
    })),
    secrets: listFields(manifest?.secrets ?? {}).map(([name, row]) => ({
      ...common(name, row),
      required: row.required,
      use: row.use ?? null,
    })),
  };
}

export function showReach(capabilities: Iterable<string>): z.output<typeof reachRow>[] {
  return Array.from(capabilities, (capability) => {
    const { sentence, risk } = describeCapability(capability);
    return { capability, sentence, risk, cancels: canCancel(capability) };
  });
}
