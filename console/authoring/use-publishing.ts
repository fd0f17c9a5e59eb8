/** The state of publishing a package or saving it as a draft. */
import { notifications } from '@mantine/notifications';
import { useMutation } from '@tanstack/react-query';
import { useEffect, useEffectEvent, useRef, useState } from 'react';
import { validateSemVer } from '../../sdk/contract/version-numbers.ts';
import { describeDraft, describeVersion, type Source } from '../editor/source.ts';
import { usePlugin } from '../rest/plugins.ts';
import { getErrorMessage, UnreachableError } from '../rest/problem.ts';
import { queryClient } from '../rest/query-client.ts';
import { useRunGuard } from '../rest/use-action.ts';
import { readSessionState } from '../sign-in/session-state.ts';
import { escapeText } from '../style/untrusted-text.ts';
import { type Dropped, rememberUnanswered } from './package-files.ts';
import { proposeNumber } from './proposed-number.ts';
import { publishVersion, saveDraft } from './publish-requests.ts';

interface PublishingOptions {
  readonly pluginId: string;
  /** Null until the user has chosen a package. */
  readonly dropped: Dropped | null;
  /** Hash of the draft that the user edited. Null: the plugin had none. Undefined: the package replaces any draft. */
  readonly madeFrom?: string | null | undefined;
  /** Number of the version that the package was made from. Null: a draft, or unknown. */
  readonly madeFromVersion?: string | null;
  /** Called after each request with its outcome. */
  readonly onAnswer?: (outcome: PublishingOutcome) => void;
  /** Whether faults stay visible while the user edits. */
  readonly keepsFaults?: boolean;
}
interface PublishingOutcome {
  readonly refusal: Error | null;
  /** What was sent, which may be older than `dropped`. */
  readonly sent: Dropped | null;
  /** What the service stored it as. Null: it was refused. */
  readonly source: Source | null;
}
interface VersionToPublish {
  readonly sent: Dropped | null;
  readonly semVer: string;
}
interface DraftSave {
  readonly sent: Dropped | null;
  /** Whether it replaces a draft that was saved elsewhere. */
  readonly isForced?: boolean;
}
export type Publishing = ReturnType<typeof usePublishing>;

export function usePublishing({ pluginId, dropped, madeFrom, onAnswer, ...options }: PublishingOptions) {
  const { madeFromVersion = null, keepsFaults = false } = options;
  const { data: plugin } = usePlugin(pluginId);
  const [typed, setTyped] = useState<string | null>(null);
  const semVer = typed ?? (plugin ? proposeNumber(plugin.versions, madeFromVersion) : '');
  const [part, setPart] = useState(0);
  const [newest, setNewest] = useState(madeFrom);
  /** What saves of the draft sent that got no response. */
  const unanswered = useRef<readonly Dropped[]>([]);
  const runs = useRunGuard();
  /** Whether a page shows the results. */
  const isShown = useRef(false);
  useEffect(() => {
    isShown.current = true;
    return () => {
      isShown.current = false;
    };
  }, []);
  const notifyIfLeft = (id: string, what: string, refusal: Error | null, done: string) => {
    const name = `${escapeText(plugin?.displayName ?? 'Plugin')} ${what}`;
    // After a sign-out, the page shows nothing of the account.
    if (!isShown.current && readSessionState() === 'active') notifyOutcome(id, name, refusal, done);
  };
  const publishNotice = `publish ${pluginId}`;
  const draftNotice = `save draft of ${pluginId}`;
  const publish = useMutation({
    mutationFn: (version: VersionToPublish) => publishVersion(pluginId, version.semVer, version.sent, setPart),
    // Not the number in the field, which may be another by then.
    onSettled: (published, refusal, { sent, semVer: sentSemVer }) => {
      runs.end('publish');
      notifyIfLeft(publishNotice, sentSemVer, refusal, 'is published');
      onAnswer?.({ refusal, sent, source: published ? describeVersion(published) : null });
    },
    onSuccess: async () => {
      await queryClient.invalidateQueries();
      setTyped(null);
    },
    onError: readAgain,
  });
  const draft = useMutation({
    mutationFn: ({ sent, isForced }: DraftSave) =>
      saveDraft(pluginId, sent, { replaces: isForced ? undefined : newest, unanswered: unanswered.current }),
    onSettled: (saved, refusal, { sent }) => {
      runs.end('draft');
      notifyIfLeft(draftNotice, 'draft', refusal, 'is saved');
      if (saved) unanswered.current = [];
      else if (refusal instanceof UnreachableError && sent !== null)
        unanswered.current = rememberUnanswered(unanswered.current, sent);
      if (saved && madeFrom !== undefined) setNewest(saved.sourceSha256);
      onAnswer?.({ refusal, sent, source: saved ? describeDraft(saved) : null });
    },
    onSuccess: () => queryClient.invalidateQueries(),
    onError: readAgain,
  });
  const forget = useEffectEvent(() => {
    for (const request of [publish, draft])
      if (!request.isPending && !(keepsFaults && request.isError)) request.reset();
  });
  // A new package clears the result of the previous one. After a success, none is chosen, and the result stays.
  useEffect(() => {
    if (dropped !== null) forget();
  }, [dropped]);
  const fault = validateSemVer(semVer.trim());
  return {
    dropped,
    semVer,
    setSemVer: setTyped,
    semVerFault: fault === null ? null : `The version number ${fault}.`,
    part,
    newestDraft: newest,
    draftSavedAt: plugin?.draft?.savedAt ?? null,
    publish: {
      ...publish,
      mutate: (sent: Dropped | null) => {
        if (!runs.begin('publish')) return;
        // An error of an earlier attempt would contradict the result of this one.
        notifications.hide(publishNotice);
        publish.mutate({ sent, semVer: semVer.trim() });
      },
    },
    draft: {
      ...draft,
      mutate: (save: DraftSave) => {
        if (!runs.begin('draft')) return;
        notifications.hide(draftNotice);
        draft.mutate(save);
      },
    },
  };
}

/** The request may have been done although its response was lost. The error does not wait for what is read. */
function readAgain(): void {
  void queryClient.invalidateQueries();
}

/** Says to a user who has left the page how the request ended. A refusal stays until it is dismissed: no page shows it. */
function notifyOutcome(id: string, name: string, refusal: Error | null, done: string): void {
  if (refusal === null) notifications.show({ id, message: `${name} ${done}` });
  else notifications.show({ id, color: 'red', message: `${name}: ${getErrorMessage(refusal)}`, autoClose: false });
}
