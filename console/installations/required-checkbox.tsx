/** The checkbox for requiring a plugin, with what that means. */
import { Checkbox } from '@mantine/core';
import { isHook } from '../../sdk/contract/ending-checks.ts';
import type { Reach } from '../catalog/risks.ts';

/** Whether requiring the plugin has an effect: a plugin without hooks checks nothing. */
export const hasHooks = (reach: Reach): boolean => reach.some(({ capability }) => isHook(capability));

/** A plugin that can cancel probably checks messages, so the console suggests to require it. */
export const suggestsRequired = (reach: Reach): boolean => reach.some(({ cancels }) => cancels);

interface Props {
  readonly required: boolean;
  readonly onChange: (required: boolean) => void;
  readonly disabled?: boolean;
}

export function RequiredCheckbox({ required, onChange, disabled = false }: Props) {
  return (
    <Checkbox
      label="Require this plugin"
      description="While it does not run, fails or times out, the messages and turns that it must check are stopped. Without this, messages and turns continue without the plugin. While you pause it, nothing is stopped."
      checked={required}
      disabled={disabled}
      onChange={(event) => onChange(event.currentTarget.checked)}
    />
  );
}
