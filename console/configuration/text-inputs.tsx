/** Text inputs for settings and secrets, whose values may have several lines, such as a private key in PEM. */
import type { PasswordInputProps, TextInputProps } from '@mantine/core';
import { type ClipboardEvent, useState } from 'react';
import { PasswordField, TextAreaField, TextField } from '../shell/form-fields.tsx';

type Shared = 'aria-required' | 'autoComplete' | 'description' | 'placeholder' | 'withAsterisk';
interface Values {
  readonly name: string;
  readonly label: string;
  readonly value: string;
  readonly onValue: (value: string) => void;
}

/** Lines that an input shows before it scrolls. */
const SETTING_ROWS_MAX = 12;
const SECRET_ROWS = 4;
const LINE_BREAK = /[\r\n]/;

export function SettingTextInput({ onValue, ...props }: Values & Pick<TextInputProps, Shared>) {
  const { hasLines, onPaste, areaRef } = useLines(props.value, onValue);
  if (!hasLines)
    return <TextField {...props} onPaste={onPaste} onChange={(event) => onValue(event.currentTarget.value)} />;
  return (
    <TextAreaField
      {...props}
      ref={areaRef}
      autosize
      minRows={1}
      maxRows={SETTING_ROWS_MAX}
      onChange={(event) => onValue(event.currentTarget.value)}
    />
  );
}

export function SecretInput({ onValue, ...props }: Values & Pick<PasswordInputProps, Shared>) {
  const { hasLines, onPaste, areaRef } = useLines(props.value, onValue);
  if (!hasLines)
    return <PasswordField {...props} onPaste={onPaste} onChange={(event) => onValue(event.currentTarget.value)} />;
  return (
    <TextAreaField
      {...props}
      ref={areaRef}
      rows={SECRET_ROWS}
      classNames={{ input: 'masked' }}
      // The browser may send text that it checks to a server.
      spellCheck={false}
      autoCapitalize="off"
      onChange={(event) => onValue(event.currentTarget.value)}
    />
  );
}

/** Tells when a text area must take the place of an input of one line, from which the browser removes line breaks. */
function useLines(value: string, onValue: (value: string) => void) {
  const [isPasted, setIsPasted] = useState(false);
  const [hadLines, setHadLines] = useState(false);
  // A text area stays when the line breaks are deleted from it, so that it keeps the focus.
  if (!hadLines && LINE_BREAK.test(value)) setHadLines(true);
  return {
    hasLines: isPasted || hadLines,
    areaRef: isPasted ? focusEnd : undefined,
    onPaste: (event: ClipboardEvent<HTMLInputElement>) => {
      const pasted = event.clipboardData.getData('text/plain');
      // Of a text of one line, the browser removes the line break at the end.
      if (!LINE_BREAK.test(pasted.trim())) return;
      event.preventDefault();
      const { selectionStart, selectionEnd } = event.currentTarget;
      const [start, end] = [selectionStart ?? value.length, selectionEnd ?? value.length];
      setIsPasted(true);
      onValue(value.slice(0, start) + pasted.replaceAll(/\r\n?/g, '\n') + value.slice(end));
    },
  };
}

function focusEnd(area: HTMLTextAreaElement | null): void {
  area?.focus();
  area?.setSelectionRange(area.value.length, area.value.length);
}
