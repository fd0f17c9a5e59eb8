/** What a plugin's author says of its end, where they took it out of the catalog. */
import { Alert } from '@mantine/core';
import { IconInfoCircle } from '@tabler/icons-react';
import { visibleText } from '../style/visible-text.ts';

export function Deprecation({ message }: { readonly message: string | null }) {
  if (!message) return null;
  return (
    <Alert color="yellow" title="No longer in the catalog" className="foreign" icon={<IconInfoCircle aria-hidden />}>
      {visibleText(message)}
    </Alert>
  );
}
