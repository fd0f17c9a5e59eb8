/** Shows why a package was refused. */
import { Alert, Button, Stack, Text } from '@mantine/core';
import { getFaults } from '../editor/faults.ts';
import { getErrorMessage, Problem } from '../rest/problem.ts';
import { Timestamp } from '../shell/timestamp.tsx';
import { escapeText } from '../style/untrusted-text.ts';
import { FaultList, type OnPlace } from './fault-list.tsx';

interface PublishFaultsProps {
  readonly error: Error;
  readonly onPlace?: OnPlace | undefined;
  /** When the draft was saved that the service has. Null: not known. */
  readonly draftSavedAt?: string | null;
  /** Saves this draft over one that was saved in another tab or by another program. */
  readonly onReplace?: () => void;
}

export function PublishFaults({ error, onPlace, draftSavedAt = null, onReplace }: PublishFaultsProps) {
  if (onReplace && error instanceof Problem && error.code === 'draft_changed')
    return <DraftConflict savedAt={draftSavedAt} onReplace={onReplace} />;
  const faults = getFaults(error);
  const sentence = getErrorMessage(error);
  // With one fault, the list repeats the sentence.
  const isInList = faults.length === 1 && sentence.endsWith(escapeText(faults[0]?.message ?? ''));
  return (
    <Alert color="red" role="alert" title={error instanceof Problem ? error.body.title : 'This did not work'}>
      {!isInList && (
        <Text size="sm" className="foreign">
          {sentence}
        </Text>
      )}
      <FaultList faults={faults} onPlace={onPlace} />
    </Alert>
  );
}

interface DraftConflictProps {
  readonly savedAt: string | null;
  readonly onReplace: () => void;
}

function DraftConflict({ savedAt, onReplace }: DraftConflictProps) {
  return (
    <Alert color="yellow" role="alert" title="The draft was saved elsewhere">
      <Stack gap="xs" align="flex-start">
        <Text size="sm">
          {savedAt === null ? null : (
            <>
              The plugin has a draft that was saved <Timestamp at={savedAt} />.{' '}
            </>
          )}
          Nothing was saved here. To see the other draft first, open “Edit files” of the plugin in another browser
          window.
        </Text>
        <Button size="xs" onClick={onReplace}>
          Replace it with these files
        </Button>
      </Stack>
    </Alert>
  );
}
