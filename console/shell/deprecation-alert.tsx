/** Shows the deprecation message of a plugin that was removed from the catalog. */
import { Alert } from '@mantine/core';
import { IconInfoCircle } from '../style/icons.tsx';
import { escapeText } from '../style/untrusted-text.ts';

export function DeprecationAlert({ message }: { readonly message: string | null }) {
  if (!message) return null;
  return (
    <Alert color="yellow" title="No longer in the catalog" className="foreign" icon={<IconInfoCircle />}>
      {escapeText(message)}
    </Alert>
  );
}
