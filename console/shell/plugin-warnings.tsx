/** Says that the operator blocked a plugin, and that its author removed it from the catalog, with the reasons. */
import { Alert } from '@mantine/core';
import type { components } from '../../sdk/rest/schema.d.ts';
import { IconAlertTriangle } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { DeprecationAlert } from './deprecation-alert.tsx';

interface PluginWarningsProps {
  readonly of: Pick<components['schemas']['Plugin'], 'blockedReason' | 'deprecationMessage'>;
}

export function PluginWarnings({ of: { blockedReason, deprecationMessage } }: PluginWarningsProps) {
  return (
    <>
      {blockedReason ? (
        <Alert color="red" title="Blocked by the operator" className="foreign" icon={<IconAlertTriangle />}>
          {escapeText(blockedReason)}
        </Alert>
      ) : null}
      <DeprecationAlert message={deprecationMessage} />
    </>
  );
}
