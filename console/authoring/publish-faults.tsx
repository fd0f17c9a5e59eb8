/** Shows why a package was refused. */
import { Alert, Text } from '@mantine/core';
import { getFaults } from '../editor/faults.ts';
import { getErrorMessage } from '../rest/problem.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { FaultList, type OnPlace } from './fault-list.tsx';

export function PublishFaults({ error, onPlace }: { readonly error: Error; readonly onPlace?: OnPlace | undefined }) {
  const faults = getFaults(error);
  const sentence = getErrorMessage(error);
  // With one fault, the list repeats the sentence.
  const isSaidBelow = faults.length === 1 && sentence.endsWith(faults[0]?.message ?? '');
  return (
    <Alert color="red" role="alert" title="The package is not valid">
      {!isSaidBelow && (
        <Text size="sm" className="foreign">
          {escapeText(sentence)}
        </Text>
      )}
      <FaultList faults={faults} onPlace={onPlace} />
    </Alert>
  );
}
